// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func texts(findings []finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text))
	}
	return strings.Join(all, "\n")
}

func TestWords(t *testing.T) {
	list, err := parseWords("name\tgrave\tdeferred free\nc\tway\troute\t/(shaper)/|:.*way_out$\ngo\tshare\tquota\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ file, content, want string }{
		"part of a name in C":        {"a/b.c", "int x;\nint find_way(void);", `a/b.c:2: "way" in find_way: the term is route`},
		"constant":                   {"a/b.h", "enum { GRAVES, THE_GRAVE };", `a/b.h:1: "grave" in THE_GRAVE: the term is deferred free`},
		"hump in Go":                 {"a/b.go", "var podShareMax int", `a/b.go:1: "share" in podShareMax: the term is quota`},
		"file name":                  {"a/grave.c", "", `a/grave.c:0: "grave" in grave.c: the term is deferred free`},
		"other language":             {"a/b.go", "var way int", ""},
		"part of a part":             {"a/b.c", "int always, engrave;", ""},
		"comments and strings":       {"a/b.c", "/* a way */ char *s = \"the way\"; // way", ""},
		"allowed folder":             {"a/shaper/b.c", "int way;", ""},
		"allowed name":               {"a/b.c", "int no_way_out;", ""},
		"test named like a sentence": {"a/b.c", "void there_is_no_way_back_from_here(void);", ""},
		"Go test":                    {"a/b_test.go", "func TestPodsShareIt() {}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(list.check(test.file, test.content)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for _, list := range []string{"name\tway", "shape\tway\troute", "name\tway\troute\t("} {
		if _, err := parseWords(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}

func TestPartsOf(t *testing.T) {
	for name, want := range map[string][]string{
		"KTSN_RING_H": {"ktsn", "ring", "h"}, "podShare": {"pod", "share"}, "URLPath": {"url", "path"}, "HTTPServerTLS": {"http", "server", "tls"},
		"at2ns": {"at", "2", "ns"}, "TSN": {"tsn"}, "_x": {"x"},
	} {
		if got := partsOf(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestVariables(t *testing.T) {
	text := "package p\n\ntype t struct{ own int }\n\nfunc f(of int) (is bool) {\n\tfor _, one := range x {\n\t\tfound, err := g(one)\n\t}\n\tvar made int\n" +
		"\tfound = 1\n\treturn s.told\n}\n"
	findings, err := checkVariables("a.go", text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%d %s", f.line, strings.Fields(f.text)[1]))
	}
	if want := []string{`3 "own":`, `5 "of":`, `5 "is":`, `6 "one":`, `7 "found":`, `9 "made":`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrototypes(t *testing.T) {
	for name, test := range map[string]struct {
		header string
		count  int
	}{
		"one over two lines": {"/* int x(void); */\nint a_b(struct c *c,\n\tint d);\n", 1},
		"two":                {"struct c *a(void);\nvoid b(int d);\n", 2},
		"a declaration":      {"extern int x;\nstruct c;\n", 0},
		"attributes":         {"int log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := prototypes(test.header); len(got) != test.count {
				t.Errorf("got %q, want %d", got, test.count)
			}
		})
	}
}

func TestGrown(t *testing.T) {
	findings := []finding{{"stand-in", "a/b/c.go", 1, "x"}, {"stand-in", "a/b/d.go", 2, "y"}}
	if got := grown(findings, map[cell]int{{"stand-in", "e/f"}: 2}); len(got) > 0 {
		t.Errorf("findings that moved count as more: %q", got)
	}
	if got := grown(findings, map[cell]int{{"stand-in", "a/b"}: 1}); len(got) != 1 {
		t.Errorf("got %q, want stand-in", got)
	}
}

func TestReport(t *testing.T) {
	findings := []finding{{"stand-in", "a/b/c.go", 1, "x"}, {"stand-in", "a/b/d.go", 2, "y"}}
	for name, test := range map[string]struct {
		allowed int
		ok      bool
		want    string
	}{
		"more than allowed":  {1, false, "a/b has 2 findings of stand-in, and 1 are allowed"},
		"as many as allowed": {2, true, ""},
		"fewer than allowed": {3, true, "1 numbers of the baseline can become smaller"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if ok := report(&out, findings, map[cell]int{{"stand-in", "a/b"}: test.allowed}, false); ok != test.ok || !strings.Contains(out.String(), test.want) {
				t.Errorf("got %v and %q, want %v and %q", ok, out.String(), test.ok, test.want)
			}
		})
	}
}
