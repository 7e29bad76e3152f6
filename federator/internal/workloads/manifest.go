// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func invalid(format string, arguments ...any) error {
	return hub.Faultf(http.StatusUnprocessableEntity, format, arguments...)
}

// parse reads the objects of a manifest for a namespace.
func parse(manifest, namespace string) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	var objects []*unstructured.Unstructured
	seen := map[string]bool{}
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalid("document %d of the manifest cannot be read: %v", number, err)
		}
		object, err := parseDocument(document, number)
		if err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		if err := place(object, namespace, number); err != nil {
			return nil, err
		}
		kind := object.GroupVersionKind().GroupKind()
		name := kind.String() + " " + object.GetName()
		if seen[name] {
			return nil, invalid("%s appears twice in the manifest", describeObject(object))
		}
		seen[name] = true
		objects = append(objects, object)
	}
	switch {
	case len(objects) == 0:
		return nil, invalid("the manifest has no objects")
	case len(objects) > federation.MaxObjects:
		return nil, invalid("the manifest has %d objects; a workload has at most %d, so make several", len(objects), federation.MaxObjects)
	}
	return objects, nil
}

// describeObject names an object in messages.
func describeObject(object *unstructured.Unstructured) string {
	return spread.Quoted(object.GetKind() + " " + object.GetName())
}

// parseDocument returns nil for an empty document.
func parseDocument(document []byte, number int) (*unstructured.Unstructured, error) {
	var content any
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		return nil, invalid("document %d of the manifest is not valid YAML: %s", number, strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: "))
	}
	if content == nil {
		return nil, nil
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, invalid("document %d of the manifest is not an object of Kubernetes: it has no fields such as apiVersion and kind", number)
	}
	object := &unstructured.Unstructured{Object: fields}
	switch {
	case object.GetAPIVersion() == "":
		return nil, invalid("document %d of the manifest has no apiVersion", number)
	case object.GetKind() == "":
		return nil, invalid("document %d of the manifest has no kind", number)
	case object.IsList():
		return nil, invalid("document %d of the manifest is a list; write its objects as documents of their own, with --- between", number)
	case object.GetName() == "":
		return nil, invalid("%s in document %d of the manifest has no metadata.name, by which clusters know it", object.GetKind(), number)
	}
	return object, checkMetadata(object, number)
}

// maxNameLength is the limit of the API server.
const maxNameLength = 253

// checkMetadata rejects names that are invalid in a path, and metadata that would be lost.
func checkMetadata(object *unstructured.Unstructured, number int) error {
	if length := len(object.GetName()); length > maxNameLength {
		return invalid("%s in document %d of the manifest has a metadata.name of %d characters; names have at most %d", object.GetKind(), number, length, maxNameLength)
	}
	if wrong := path.IsValidPathSegmentName(object.GetName()); len(wrong) > 0 {
		return invalid("%s in document %d of the manifest has the metadata.name %q, which %s", object.GetKind(), number, object.GetName(), strings.Join(wrong, " and "))
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return invalid("%s in document %d of the manifest has metadata.%s that are no texts by names: %v", describeObject(object), number, field, err)
		}
	}
	return nil
}

// place puts an object into the workload's namespace.
func place(object *unstructured.Unstructured, namespace string, number int) error {
	switch group, _, _ := strings.Cut(object.GetAPIVersion(), "/"); {
	case object.GetNamespace() != "" && object.GetNamespace() != namespace:
		return invalid("%s in document %d of the manifest is in namespace %s, and the workload in %s; make a workload for each namespace",
			describeObject(object), number, object.GetNamespace(), namespace)
	case strings.HasSuffix(group, ".karmada.io"):
		return invalid("%s in document %d of the manifest is Karmada's own; policies are made from the clusters that are named", describeObject(object), number)
	}
	object.SetNamespace(namespace)
	// The API server of another cluster has set these fields.
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	return nil
}
