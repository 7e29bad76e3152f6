// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// rule is a line of the list.
type rule struct {
	kind   string         // what it is about, see the list
	word   string         // of identifiers
	text   *regexp.Regexp // of lines
	term   string         // to be used
	unless *regexp.Regexp // of "FILE:IDENTIFIER" or "FILE:LINE"; nil: always
}

// parse reads rules: kind, word, term and exception, separated by tabs.
func parse(list string) ([]rule, error) {
	var rules []rule
	for number, line := range strings.Split(list, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parseRule(strings.FieldsFunc(line, func(r rune) bool { return r == '\t' }))
		if err != nil {
			return nil, fmt.Errorf("line %d of the list: %w", number+1, err)
		}
		rules = append(rules, one)
	}
	return rules, nil
}

func parseRule(fields []string) (rule, error) {
	if len(fields) < 3 || len(fields) > 4 {
		return rule{}, fmt.Errorf("%d columns, want kind, word, term and maybe an exception", len(fields))
	}
	one := rule{kind: fields[0], word: fields[1], term: fields[2]}
	var err error
	switch one.kind {
	case "name", "c", "go":
	case "text":
		if one.text, err = regexp.Compile(`(?i)\b` + one.word + `\b`); err != nil {
			return rule{}, err
		}
	default:
		return rule{}, fmt.Errorf("kind %q, want name, c, go or text", one.kind)
	}
	if len(fields) == 4 {
		one.unless, err = regexp.Compile(fields[3])
	}
	return one, err
}

// in tells whether a rule about identifiers is about those of a file.
func (r *rule) in(file string) bool {
	switch {
	case isC(file):
		return r.kind == "name" || r.kind == "c"
	case isGo(file):
		return r.kind == "name" || r.kind == "go"
	}
	return false
}

// allowed tells that the exception holds.
func (r *rule) allowed(file, what string) bool {
	return r.unless != nil && r.unless.MatchString(file+":"+what)
}

func isC(file string) bool  { return strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") }
func isGo(file string) bool { return strings.HasSuffix(file, ".go") }
