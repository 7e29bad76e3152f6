// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

const rules = "name\tgrave\tdeferred free\nc\tway\troute\t/(shaper)/|:.*way_out$\ngo\tshare\tquota\ntext\tway of a packet\tpath\n"

func TestWordsAreFoundInNamesAndPhrasesInLines(t *testing.T) {
	parsed, err := parse(rules)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ file, content, want string }{
		"a part of a name in C":          {"a/b.c", "int x;\nint find_way(void);", `a/b.c:2: "way" in find_way: say route`},
		"a constant":                     {"a/b.h", "enum { GRAVES, THE_GRAVE };", `a/b.h:1: "grave" in THE_GRAVE: say deferred free`},
		"a hump in Go":                   {"a/b.go", "var podShareMax int", `a/b.go:1: "share" in podShareMax: say quota`},
		"the name of a file":             {"a/grave.c", "", `a/grave.c: "grave" in the name of a file: say deferred free`},
		"a phrase in a comment":          {"a/b.go", "// The way of a packet.", `a/b.go:1: "way of a packet": say path`},
		"a phrase in a page":             {"docs/a.md", "\nWay of a packet", `docs/a.md:2: "Way of a packet": say path`},
		"not the language of the rule":   {"a/b.go", "var way int", ""},
		"not a part of a part":           {"a/b.c", "int always, engrave;", ""},
		"not in comments or strings":     {"a/b.c", "/* a way */ char *s = \"the way\"; // way", ""},
		"not where the list allows it":   {"a/shaper/b.c", "int way;", ""},
		"not what the list allows":       {"a/b.c", "int no_way_out;", ""},
		"not in a test named a sentence": {"a/b.c", "void there_is_no_way_back_from_here(void);", ""},
		"not in the name of a Go test":   {"a/b_test.go", "func TestPodsShareIt() {}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(check(test.file, test.content, parsed), "\n"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNamesAreDividedAtUnderscoresAndHumps(t *testing.T) {
	for name, want := range map[string][]string{
		"KTSN_RING_H": {"ktsn", "ring", "h"}, "podShare": {"pod", "share"}, "URLPath": {"url", "path"}, "HTTPServerTLS": {"http", "server", "tls"},
		"at2ns": {"at", "2", "ns"}, "TSN": {"tsn"}, "_x": {"x"},
	} {
		if got := partsOf(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAListThatIsWrongIsRefused(t *testing.T) {
	for _, list := range []string{"name\tway", "shape\tway\troute", "text\t(\tpath", "name\tway\troute\t("} {
		if _, err := parse(list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}
