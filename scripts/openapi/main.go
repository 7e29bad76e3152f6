// SPDX-License-Identifier: Apache-2.0

// Openapi reduces the OpenAPI descriptions of several Kubernetes versions to what is needed to check objects: the definitions of the
// kinds that chart, operator and agents use, without descriptions, and the paths of their groups. x-versions lists the versions of
// definitions, properties and paths that not all versions have.
//
//	go run ./scripts/openapi 1.31.0 1.32.0 >internal/checks/kubernetes/testdata/openapi.json
//
// The descriptions are in the modules of k8s.io/kubernetes, from the Go module proxy.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// roots are the kinds that are used.
var roots = []string{
	"io.k8s.api.core.v1.ConfigMap", "io.k8s.api.core.v1.Event", "io.k8s.api.core.v1.Namespace", "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.Secret",
	"io.k8s.api.core.v1.Service", "io.k8s.api.core.v1.ServiceAccount", "io.k8s.api.core.v1.Node",
	"io.k8s.api.apps.v1.DaemonSet", "io.k8s.api.apps.v1.Deployment", "io.k8s.api.batch.v1.Job", "io.k8s.api.policy.v1.PodDisruptionBudget",
	"io.k8s.api.rbac.v1.ClusterRole", "io.k8s.api.rbac.v1.ClusterRoleBinding", "io.k8s.api.rbac.v1.Role", "io.k8s.api.rbac.v1.RoleBinding",
	"io.k8s.api.storage.v1.CSIDriver", "io.k8s.api.networking.v1.NetworkPolicy", "io.k8s.api.scheduling.v1.PriorityClass",
	"io.k8s.api.coordination.v1.Lease", "io.k8s.api.events.v1.Event",
	"io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration", "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
	"io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy", "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
}

// object is a JSON object.
type object = map[string]any

// swagger is the used part of a description.
type swagger struct {
	Definitions map[string]object
	Paths       map[string]any
}

// reduced is the output.
type reduced struct {
	Versions    []string
	Definitions map[string]object
	Paths       map[string][]string
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(versions []string, out io.Writer) error {
	all := &reduced{Definitions: map[string]object{}, Paths: map[string][]string{}}
	for _, full := range versions {
		described, err := fetch(full)
		if err != nil {
			return err
		}
		version := full[:strings.LastIndexByte(full, '.')]
		all.Versions = append(all.Versions, version)
		if err := all.merge(version, described); err != nil {
			return fmt.Errorf("version %s: %w", version, err)
		}
	}
	all.omitCommon()
	return all.write(out)
}

// write writes a definition or path a line, for readable diffs.
func (r *reduced) write(out io.Writer) error {
	versions, err := json.Marshal(r.Versions)
	if err != nil {
		return err
	}
	definitions, err := lines(r.Definitions)
	if err != nil {
		return err
	}
	paths, err := lines(r.Paths)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "{\"versions\": %s,\n\"definitions\": {\n%s},\n\"paths\": {\n%s}}\n", versions, definitions, paths)
	return err
}

func lines[V any](entries map[string]V) (string, error) {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		value, err := json.Marshal(entries[key])
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("%q: %s", key, value))
	}
	return strings.Join(all, ",\n"), nil
}

// fetch reads the description of a version from its module.
func fetch(version string) (*swagger, error) {
	dir, err := os.MkdirTemp("", "openapi")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	command := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@v"+version)
	command.Dir, command.Stderr = dir, os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("fetch Kubernetes %s: %w: %s", version, err, output)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return nil, err
	}
	described := &swagger{}
	return described, json.Unmarshal(content, described)
}

// merge adds a version's definitions and paths.
func (r *reduced) merge(version string, described *swagger) error {
	var names []string
	for _, root := range roots {
		reach(described.Definitions, root, &names)
	}
	for _, name := range names {
		if err := r.mergeDefinition(version, name, described.Definitions[name]); err != nil {
			return err
		}
	}
	for path := range described.Paths {
		if resource := resourceOf(path); resource != "" && !slices.Contains(r.Paths[resource], version) {
			r.Paths[resource] = append(r.Paths[resource], version)
		}
	}
	return nil
}

// reach collects a definition and everything that it refers to.
func reach(definitions map[string]object, name string, names *[]string) {
	if definitions[name] == nil || slices.Contains(*names, name) {
		return
	}
	*names = append(*names, name)
	for _, reference := range references(definitions[name]) {
		reach(definitions, reference, names)
	}
}

func references(value any) []string {
	var all []string
	switch value := value.(type) {
	case object:
		for key, member := range value {
			if text, isText := member.(string); key == "$ref" && isText {
				all = append(all, strings.TrimPrefix(text, "#/definitions/"))
			} else {
				all = append(all, references(member)...)
			}
		}
	case []any:
		for _, element := range value {
			all = append(all, references(element)...)
		}
	}
	return all
}

func (r *reduced) mergeDefinition(version, name string, definition object) error {
	known := r.Definitions[name]
	if known == nil {
		known = object{}
		r.Definitions[name] = known
	}
	add(known, version)
	for key, value := range definition {
		switch key {
		case "type", "format", "required":
			known[key] = value
		case "properties":
			if known[key] == nil {
				known[key] = object{}
			}
			for property, schema := range value.(object) {
				if err := mergeProperty(version, known[key].(object), property, bare(schema)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

func mergeProperty(version string, properties object, name string, schema any) error {
	known, have := properties[name].(object)
	if !have {
		known = schema.(object)
		properties[name] = known
	}
	versions := known["x-versions"]
	delete(known, "x-versions")
	if !reflect.DeepEqual(known, schema) {
		return fmt.Errorf("property %s is %v, and was %v before", name, schema, known)
	}
	known["x-versions"] = versions
	add(known, version)
	return nil
}

func add(to object, version string) {
	versions, _ := to["x-versions"].([]string)
	to["x-versions"] = append(versions, version)
}

// bare keeps the parts of a schema that decide whether a value is valid.
func bare(schema any) any {
	from, isObject := schema.(object)
	if !isObject {
		return schema
	}
	kept := object{}
	for _, key := range []string{"type", "format", "$ref", "items", "additionalProperties"} {
		if value, has := from[key]; has {
			kept[key] = bare(value)
		}
	}
	return kept
}

// omitCommon removes version lists that contain all versions.
func (r *reduced) omitCommon() {
	for _, definition := range r.Definitions {
		r.omit(definition)
		properties, _ := definition["properties"].(object)
		for _, schema := range properties {
			r.omit(schema.(object))
		}
	}
	for path, versions := range r.Paths {
		if len(versions) == len(r.Versions) {
			r.Paths[path] = nil
		}
	}
}

func (r *reduced) omit(from object) {
	if versions, _ := from["x-versions"].([]string); len(versions) == len(r.Versions) {
		delete(from, "x-versions")
	}
}

// groups matches the groups of the roots.
var groups = regexp.MustCompile(`^(v1|(apps|batch|policy|networking\.k8s\.io|scheduling\.k8s\.io|rbac\.authorization\.k8s\.io|storage\.k8s\.io|` +
	`coordination\.k8s\.io|events\.k8s\.io|admissionregistration\.k8s\.io|apiextensions\.k8s\.io|authorization\.k8s\.io|authentication\.k8s\.io|` +
	`discovery\.k8s\.io|node\.k8s\.io)/v1)/[a-z]+(/[a-z]+)?$`)

// resourceOf returns "apps/v1/daemonsets/status" for the path of a resource of one of the groups, else "".
func resourceOf(path string) string {
	path = strings.TrimSuffix(path, "/")
	for _, part := range []string{"/watch", "/namespaces/{namespace}", "/{name}"} {
		path = strings.Replace(path, part, "", 1)
	}
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
	if !groups.MatchString(path) {
		return ""
	}
	return path
}
