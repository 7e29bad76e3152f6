// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"
	"unicode"
)

// Limits of a pod's text in a message, and of several messages in the log, in characters.
const (
	nameMax    = 200
	failureMax = 600
)

// message explains the consequence for the pod.
func (f *Program) message() string {
	const consequence = "its messages with a transmit time do not leave by a TSN interface whose network captures none (spec.capture)"
	name := printable(f.Name, nameMax)
	switch {
	case f.Static && f.Go:
		return fmt.Sprintf("Program %s is written in Go and linked statically: it makes its own system calls, past libktsn.so, and %s", name, consequence)
	case f.Static:
		return fmt.Sprintf("Program %s is linked statically, so libktsn.so cannot be loaded into it and %s; link it dynamically", name, consequence)
	}
	return fmt.Sprintf("Program %s was started with LD_PRELOAD but libktsn.so is not in it (the path is wrong, the program has set-user-id, or its "+
		"loader refused it), so %s", name, consequence)
}

// printable makes a pod's text safe for an Event or log: one line of limited length.
func printable(text string, most int) string {
	cleaned := strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if characters := []rune(cleaned); len(characters) > most {
		return string(characters[:most]) + "…"
	}
	return cleaned
}
