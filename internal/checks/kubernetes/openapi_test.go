// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// object is a JSON object.
type object = map[string]any

// description is testdata/openapi.json: definitions and paths without a list of versions are in all of them.
type description struct {
	Versions    []string
	Definitions map[string]object
	Paths       map[string][]string

	compiled map[string]*jsonschema.Schema // by version and definition
}

func readDescription(t *testing.T) *description {
	t.Helper()
	content, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	read := &description{compiled: map[string]*jsonschema.Schema{}}
	if err := json.Unmarshal(content, read); err != nil {
		t.Fatal(err)
	}
	return read
}

// in reports whether a version has a definition or property.
func in(schema object, version string) bool {
	versions, limited := schema["x-versions"].([]any)
	return !limited || slices.Contains(versions, any(version))
}

// schema returns the JSON schema of a definition in a version. It allows no properties but the described ones.
func (d *description) schema(version, name string) object {
	all := object{}
	for name, definition := range d.Definitions {
		if in(definition, version) {
			all[name] = strict(name, definition, version)
		}
	}
	return object{"$ref": "#/definitions/" + name, "definitions": all}
}

func strict(name string, definition object, version string) any {
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return object{"type": []any{"string", "number"}}
	}
	result := object{}
	for _, key := range []string{"type", "required"} {
		if value, has := definition[key]; has {
			result[key] = value
		}
	}
	if all, has := definition["properties"].(object); has {
		properties := object{}
		for name, property := range all {
			if schema := property.(object); in(schema, version) {
				properties[name] = plain(schema)
			}
		}
		result["properties"], result["additionalProperties"] = properties, false
	}
	return result
}

// plain returns a property without its versions and format.
func plain(schema object) object {
	result := object{}
	for key, value := range schema {
		if key != "x-versions" && key != "format" {
			result[key] = value
		}
	}
	return result
}

// definitionOf returns the definition of a kind, and false if no version has it.
func (d *description) definitionOf(apiVersion, kind string) (string, bool) {
	group, version, has := strings.Cut(apiVersion, "/")
	if !has {
		group, version = "core", apiVersion
	}
	prefix := "io.k8s.api." + strings.TrimSuffix(strings.TrimSuffix(group, ".k8s.io"), ".authorization")
	if group == "apiextensions.k8s.io" {
		prefix = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions"
	}
	name := prefix + "." + version + "." + kind
	_, known := d.Definitions[name]
	return name, known
}

// problem returns why a Kubernetes version would reject an object, nil if it would not.
func (d *description) problem(version string, checked object) error {
	apiVersion, _ := checked["apiVersion"].(string)
	kind, _ := checked["kind"].(string)
	name, known := d.definitionOf(apiVersion, kind)
	if !known || !in(d.Definitions[name], version) {
		return fmt.Errorf("no %s of %s is described", kind, apiVersion)
	}
	schema, err := d.compile(version, name)
	if err != nil {
		return err
	}
	return schema.Validate(checked)
}

// compile compiles a schema, once.
func (d *description) compile(version, name string) (*jsonschema.Schema, error) {
	key := version + " " + name
	if known := d.compiled[key]; known != nil {
		return known, nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	if err := compiler.AddResource("mem:///kubernetes.json", d.schema(version, name)); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile("mem:///kubernetes.json") // a relative one is a file, whose path may have spaces
	if err == nil {
		d.compiled[key] = schema
	}
	return schema, err
}

// unserved returns an error if a version does not serve a resource of a group.
func (d *description) unserved(version, group, resource string) error {
	path := "v1/" + resource
	if group != "" {
		path = group + "/" + path
	}
	versions, known := d.Paths[path]
	if !known || versions != nil && !slices.Contains(versions, version) {
		return fmt.Errorf("%s is not served", path)
	}
	return nil
}
