// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is the shown part of a CustomResourceDefinition's schema.
type schema struct {
	Type, Description, Format string
	Default                   any
	Enum                      []any
	Minimum, Maximum          *float64
	MinItems, MaxItems        *int
	Required                  []string
	Properties                map[string]*schema
	Items                     *schema
	Rules                     []struct{ Message string } `json:"x-kubernetes-validations"`
}

type definition struct {
	kind string
	root *schema
}

// place is where fields were written first: a page, and the path of their parent there.
type place struct{ kind, path string }

func readDefinition(path string) (*definition, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read struct {
		Spec struct {
			Names    struct{ Kind string }
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &read); err != nil || len(read.Spec.Versions) == 0 {
		return nil, fmt.Errorf("%s: no versions: %w", path, err)
	}
	return &definition{read.Spec.Names.Kind, &read.Spec.Versions[0].Schema.OpenAPIV3Schema}, nil
}

// write writes the page of a kind. Fields that another parent has already had are not repeated.
func (d *definition) write(out io.Writer, written map[string]place) {
	fmt.Fprintf(out, "# %s\n\n%s", d.kind, head)
	paragraph(out, d.root.Description)
	for _, part := range []string{"spec", "status"} {
		if d.root.Properties[part] == nil {
			continue
		}
		fmt.Fprintf(out, "## %s\n\n| field | value | meaning |\n|---|---|---|\n", part)
		table := table{out, d.kind, part, written}
		table.fields("", d.root.Properties[part])
		fmt.Fprintln(out)
	}
}

// table is the table of the fields of spec or status.
type table struct {
	io.Writer
	kind, part string
	written    map[string]place
}

// fields writes a line for each field below parent, with its path.
func (t *table) fields(path string, parent *schema) {
	for _, name := range slices.Sorted(maps.Keys(parent.Properties)) {
		field := parent.Properties[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		below, object := at, field
		if field.Items != nil {
			below, object = at+"[]", field.Items
		}
		words := value(field, slices.Contains(parent.Required, name))
		text := define(name, meaning(field))
		first, repeated := t.seen(object, below)
		switch {
		case isSelector(object):
			words = strings.Replace(words, object.Type, "[label selector](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors)", 1)
		case repeated:
			text += " Its fields are those of " + first + "."
		}
		fmt.Fprintf(t, "| `%s` | %s | %s |\n", at, words, text)
		// Kubernetes documents conditions and selectors.
		if !repeated && !isSelector(object) && object.Properties["lastTransitionTime"] == nil {
			t.fields(below, object)
		}
	}
}

// seen returns where the fields of an object have been written, and notes that they are written here if nowhere else.
func (t *table) seen(object *schema, path string) (first string, repeated bool) {
	if len(object.Properties) < 2 || object.Properties["lastTransitionTime"] != nil {
		return "", false
	}
	text, err := json.Marshal(object.Properties)
	if err != nil {
		panic(err) // it comes from YAML
	}
	previous, repeated := t.written[string(text)]
	if !repeated {
		t.written[string(text)] = place{t.kind, t.part + "." + path}
		return "", false
	}
	name := "`" + strings.TrimPrefix(previous.path, t.part+".") + "`"
	if previous.kind != t.kind {
		name = fmt.Sprintf("%#q of [%s](%s.md)", previous.path, previous.kind, previous.kind)
	}
	return name, true
}

func isSelector(object *schema) bool {
	return object.Properties["matchExpressions"] != nil && object.Properties["matchLabels"] != nil
}

func value(field *schema, required bool) string {
	words := []string{field.Type}
	if field.Items != nil {
		words[0] = "list of " + field.Items.Type
	}
	if len(field.Enum) > 0 {
		words = append(words, strings.Trim(fmt.Sprint(field.Enum), "[]"))
	}
	switch {
	case field.Minimum != nil && field.Maximum != nil:
		words = append(words, fmt.Sprintf("%.0f to %.0f", *field.Minimum, *field.Maximum))
	case field.Minimum != nil:
		words = append(words, fmt.Sprintf("%.0f or more", *field.Minimum))
	}
	switch {
	case field.MaxItems != nil && field.MinItems != nil && *field.MinItems == *field.MaxItems:
		words = append(words, fmt.Sprintf("exactly %d", *field.MaxItems))
	case field.MaxItems != nil:
		words = append(words, fmt.Sprintf("at most %d", *field.MaxItems))
	}
	if required {
		words = append(words, "required")
	}
	if field.Default != nil {
		words = append(words, fmt.Sprintf("default %v", field.Default))
	}
	return strings.Join(words, ", ")
}

var (
	// listed matches messages of rules that say what is valid, and unlisted those that the descriptions of fields have already.
	listed   = regexp.MustCompile("must (not )?(be|have)|required")
	unlisted = regexp.MustCompile("such as|cannot be changed|can only grow")
)

// bound begins a rule about a range of numbers.
var bound = regexp.MustCompile(`^\S+ must be (\d)`)

// meaning is the description with rules that the API server checks.
func meaning(field *schema) string {
	text := []string{plain(field.Description)}
	for _, rule := range field.Rules {
		if message := plain(rule.Message); listed.MatchString(message) && !unlisted.MatchString(message) {
			text = append(text, bound.ReplaceAllString(message, "$1")+".")
		}
	}
	return strings.Join(text, " ")
}
