// SPDX-License-Identifier: Apache-2.0

package txtime

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed kernel.txt
var kernel string

// Facts are the lines of a case, without its name.
type Facts []string

// Kernel returns Linux's facts, by case ID.
func Kernel() map[string]Facts { return parse(kernel) }

func parse(text string) map[string]Facts {
	facts := map[string]Facts{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if id, fact, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "#") {
			facts[id] = append(facts[id], fact)
		}
	}
	return facts
}

// FactsOf returns the facts of a case from ktsn-test-txtime's output and the texts that arrived.
func FactsOf(tested Case, output string, arrived []string) Facts {
	facts := slices.Clone(parse(output)[tested.Name])
	if tested.Arrived {
		facts = append(facts, "arrived = "+join(arrived))
	}
	return facts
}

// join writes runs of equal texts once, with their number.
func join(texts []string) string {
	var parts []string
	for i := 0; i < len(texts); {
		run := 1
		for i+run < len(texts) && texts[i+run] == texts[i] {
			run++
		}
		part := texts[i]
		if run > 1 {
			part = fmt.Sprintf("%s*%d", part, run)
		}
		parts, i = append(parts, part), i+run
	}
	return strings.Join(parts, " ")
}

// Nothing stands for a missing value.
const Nothing = "nothing"

// Difference is a difference between libktsn and the kernel.
type Difference struct {
	// Kernel and Libktsn are values, or Nothing if libktsn does not report the fact.
	Kernel, Libktsn string
	// Or is another possible value of libktsn, if it depends on which of two threads is faster; empty if there is none.
	Or     string
	Reason string
}

// Compare returns the facts of a case that differ from the kernel's without a known difference, and the known
// differences that do not occur. The differences are by fact, without its value.
func Compare(facts, kernel Facts, differences map[string]Difference) []string {
	var complaints []string
	if len(kernel) == 0 {
		return []string{"kernel.txt does not have the case"}
	}
	var expected Facts
	for _, fact := range kernel {
		what, value, _ := strings.Cut(fact, " = ")
		known, ok := differences[what]
		switch {
		case !ok:
			expected = append(expected, fact)
			continue
		case value != known.Kernel:
			complaints = append(complaints, fmt.Sprintf("%s: the kernel's answer %q is not the %q of the difference",
				what, value, known.Kernel))
		}
		if known.Libktsn != Nothing {
			expected = append(expected, what+" = "+known.among(what, facts))
		}
	}
	for i := range max(len(facts), len(expected)) {
		if got, want := at(facts, i), at(expected, i); got != want {
			complaints = append(complaints, fmt.Sprintf("got %q, want %q", got, want))
		}
	}
	return complaints
}

// among returns which of the values the facts have.
func (d Difference) among(what string, facts Facts) string {
	if d.Or != "" && slices.Contains(facts, what+" = "+d.Or) {
		return d.Or
	}
	return d.Libktsn
}

func at(facts Facts, i int) string {
	if i < len(facts) {
		return facts[i]
	}
	return Nothing
}
