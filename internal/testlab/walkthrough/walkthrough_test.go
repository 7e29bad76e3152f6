// SPDX-License-Identifier: Apache-2.0

package walkthrough

import (
	"slices"
	"strings"
	"testing"
)

const page = `# Title

<!-- run: first -->
~~~
kubectl get pods
~~~

<!-- output -->
~~~
NAME  AGE
a     20s
~~~

Text.

<!-- run: second, until the output matches -->
~~~
true
~~~
`

func TestRead(t *testing.T) {
	got, err := Read(strings.ReplaceAll(page, "~~~", fence))
	want := []Block{{Name: "first", Commands: "kubectl get pods\n", Output: "NAME  AGE\na     20s\n"}, {Name: "second", Commands: "true\n", Repeat: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"a text between":        "<!-- run: a -->\n\n```\n```\n",
		"no end":                "<!-- run: a -->\n```\ntrue\n",
		"an unknown mark":       "<!-- run: A b -->\n```\n```\n",
		"output of no commands": "<!-- output -->\n```\n```\n",
	} {
		if got, err := Read(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestMatch(t *testing.T) {
	for name, test := range map[string]struct {
		want, got string
		ok        bool
	}{
		"the same":               {"a b\nc\n", "a b\nc\n", true},
		"other spaces":           {"NAME   NODES\ntsn    1/1\n", "NAME NODES\ntsn  1/1  \n", true},
		"another age":            {"tsn True 20s\n", "tsn True 1m5s\n", true},
		"another number":         {"received 1000\n", "received 999\n", false},
		"a part of a line":       {"pod ktsnd-... serves\n", "pod ktsnd-x7k2p serves\n", true},
		"another part of a line": {"pod ktsnd-... serves\n", "pod ktsnd-x7k2p stands by\n", false},
		"lines between":          {"a\n...\nd\n", "a\nb\nc\nd\n", true},
		"no lines between":       {"a\n...\nd\n", "a\nd\n", true},
		"lines at the end":       {"a\n...\n", "a\nb\n", true},
		"a line too many":        {"a\n", "a\nb\n", false},
		"a line too few":         {"a\nb\n", "a\n", false},
		"no output":              {"a\n", "", false},
		"a pattern of regexp":    {"a.c (x)\n", "abc (x)\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Match(test.want, test.got); (err == nil) != test.ok {
				t.Errorf("got %v, want a match: %v", err, test.ok)
			}
		})
	}
}
