// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// functions are the CEL functions that may be used, with the Kubernetes minor version that introduced them: the standard macros and
// functions, optional types (1.29), and Kubernetes' libraries (https://kubernetes.io/docs/reference/using-api/cel/).
var functions = map[string]int{
	"has": 23, "all": 23, "exists": 23, "exists_one": 23, "map": 23, "filter": 23, "size": 23, "startsWith": 23, "endsWith": 23, "contains": 23, "matches": 23,
	"int": 23, "uint": 23, "string": 23, "double": 23, "bytes": 23, "duration": 23, "timestamp": 23, "type": 23, "dyn": 23,
	"isSorted": 23, "sum": 23, "min": 23, "max": 23, "indexOf": 23, "lastIndexOf": 23, "find": 23, "findAll": 23, "url": 23, "isURL": 23,
	"lowerAscii": 23, "upperAscii": 23, "replace": 23, "split": 23, "join": 23, "substring": 23, "trim": 23, "charAt": 23,
	"authorizer": 27, "quantity": 28, "isQuantity": 28, "orValue": 29, "optional": 29, "none": 29, "of": 29, "hasValue": 29, "value": 29, "or": 29, "optMap": 29,
	"ip": 30, "isIP": 30, "cidr": 30, "isCIDR": 30, "family": 30, "containsIP": 30, "containsCIDR": 30, "prefixLength": 30, "masked": 30, "isCanonical": 30,
}

// oldest is the minor version of the oldest supported Kubernetes.
const oldest = 31

var (
	call   = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)\(`)
	quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// called returns the functions that an expression calls.
func called(expression string) []string {
	var names []string
	for _, match := range call.FindAllStringSubmatch(quoted.ReplaceAllString(expression, ""), -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}

// expressions returns all CEL expressions of an object: of policies and of rules in schemas.
func expressions(value any) (all []string) {
	switch value := value.(type) {
	case object:
		for key, member := range value {
			if text, isText := member.(string); isText && slices.Contains([]string{"expression", "rule", "messageExpression"}, key) {
				all = append(all, text)
			} else {
				all = append(all, expressions(member)...)
			}
		}
	case []any:
		for _, element := range value {
			all = append(all, expressions(element)...)
		}
	}
	return all
}

func TestExpressionsFitOldestVersion(t *testing.T) {
	var all []string
	for _, rendered := range render(t, "1.31", nil) {
		all = append(all, expressions(rendered)...)
	}
	crds, err := filepath.Glob("../../../charts/kubernetsn/files/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range crds {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "kind: CustomResourceDefinition") {
			all = append(all, expressions(parse(t, text))...)
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	for _, expression := range all {
		for _, name := range called(expression) {
			if since, known := functions[name]; !known || since > oldest {
				t.Errorf("%s() is not known to be in Kubernetes 1.%d: %s", name, oldest, expression)
			}
		}
	}
}

func TestCallsAreFoundInExpressions(t *testing.T) {
	got := called(`has(object.a) && object.b.exists(x, x.startsWith('lower(')) || ip("::1").family() == 6`)
	if want := []string{"has", "exists", "startsWith", "ip", "family"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
