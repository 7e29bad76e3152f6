// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

// joined puts two sentences behind each other.
func joined(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "" || strings.Contains(first, second):
		return first
	}
	return first + "; " + second
}

// sameButFigures tells whether two sentences differ in figures and units of time only, such as those of an error that grows. One that
// is written to the API server is not written again for that.
func sameButFigures(a, b string) bool { return withoutFigures(a) == withoutFigures(b) }

func withoutFigures(text string) string {
	words := strings.Fields(text)
	kept := words[:0]
	for _, word := range words {
		if !figure(word) {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// figure tells whether a word is a number, with or without a unit.
func figure(word string) bool {
	word = strings.TrimFunc(word, unicode.IsPunct)
	if word == "" {
		return false
	}
	switch word {
	case "ns", "us", "µs", "ms", "s", "ppb", "ppm":
		return true
	}
	if first := word[0]; first < '0' || first > '9' {
		return false
	}
	_, err := time.ParseDuration(word)
	return err == nil || strings.IndexFunc(word, func(r rune) bool { return !unicode.IsDigit(r) && r != '.' }) < 0
}

// sentenceOf says what an Event says.
func sentenceOf(state clock.State, of *judgement) string {
	if state == clock.Synchronized {
		return joined(fmt.Sprintf("the error of the clock is within %v", of.need.MaxError), of.sentence)
	}
	return joined(of.sentence, "")
}
