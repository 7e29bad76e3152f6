// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// valuesSchema is a part of a chart's values.schema.json.
type valuesSchema struct {
	AdditionalProperties any
	Properties           map[string]json.RawMessage
}

func TestSchemasOfChartsHaveTheirValues(t *testing.T) {
	for _, chart := range []string{"kubernetsn", "federator"} {
		var schema valuesSchema
		if err := json.Unmarshal([]byte(read(t, "charts/"+chart+"/values.schema.json")), &schema); err != nil {
			t.Fatal(err)
		}
		var values map[string]any
		if err := yaml.Unmarshal([]byte(read(t, "charts/"+chart+"/values.yaml")), &values); err != nil {
			t.Fatal(err)
		}
		delete(schema.Properties, "global") // helm's own
		schema.compare(t, chart, values)
		// An empty description.
		for i, line := range lines(t, "charts/"+chart+"/README.md") {
			if strings.HasSuffix(line, "|  |") {
				t.Errorf("charts/%s/README.md:%d: the value has no comment that begins with --: %s", chart, i+1, line)
			}
		}
	}
}

// compare compares keys. Objects without properties in the schema have any keys.
func (s *valuesSchema) compare(t *testing.T, path string, values map[string]any) {
	t.Helper()
	if s.AdditionalProperties != false {
		t.Errorf("%s: the schema accepts unknown values", path)
	}
	for key, value := range values {
		text, ok := s.Properties[key]
		if !ok {
			t.Errorf("%s.%s is not in values.schema.json", path, key)
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			continue
		}
		var property valuesSchema
		if err := json.Unmarshal(text, &property); err != nil {
			t.Fatal(err)
		}
		// Limits have any keys of Kubernetes.
		if len(property.Properties) > 0 && key != "limits" {
			property.compare(t, path+"."+key, object)
		}
	}
	for key := range s.Properties {
		if _, ok := values[key]; !ok {
			t.Errorf("%s.%s is not in values.yaml", path, key)
		}
	}
}
