// SPDX-License-Identifier: Apache-2.0

package clocks

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kubernetsn/kubernetsn/internal/node/clock"
)

// joinMessages joins two messages.
func joinMessages(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "" || strings.Contains(first, second):
		return first
	}
	return first + "; " + second
}

// equalExceptNumbers reports whether two messages differ in numbers and units of time only, such as those of a growing
// error. Such a message is not written to the API server again.
func equalExceptNumbers(a, b string) bool { return withoutNumbers(a) == withoutNumbers(b) }

func withoutNumbers(text string) string {
	words := strings.Fields(text)
	kept := words[:0]
	for _, word := range words {
		if !isNumber(word) {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// isNumber reports whether a word is a number, with or without a unit.
func isNumber(word string) bool {
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

// eventMessage returns the message of an Event.
func eventMessage(state clock.State, j *judgement) string {
	if state == clock.Synchronized {
		return joinMessages(fmt.Sprintf("the error of the clock is within %v", j.need.MaxError), j.message)
	}
	return joinMessages(j.message, "")
}

const (
	// messageInterval is the least time between two messages about the same subject, such as with another size of the
	// error: each is a write of the node's status.
	messageInterval = 5 * time.Minute
	// reasonInterval is the least time between two messages with different reasons in the same state, and
	// reasonHoldTime how long the other reason must have lasted: a clock at its limit alternates between two reasons.
	reasonInterval = 30 * time.Second
	reasonHoldTime = 10 * time.Second
)

// subject is what a message is about.
type subject struct {
	state  clock.State
	reason string
	faults []string
}

// updateMessage sets the message to that of the verdict and the faults: at once for another state or a new fault,
// otherwise when it is due.
func (j *judgement) updateMessage(estimate *clock.Estimate, now time.Time) {
	sentence, about := j.verdict.Sentence, subject{state: j.verdict.State, reason: j.verdict.Reason}
	unnamed := false
	if estimate != nil {
		for _, fault := range estimate.Faults {
			sentence, about.faults = joinMessages(sentence, fault.Sentence), append(about.faults, fault.Reason)
			unnamed = unnamed || !slices.Contains(j.subject.faults, fault.Reason)
		}
	}
	same := about.reason == j.subject.reason && slices.Equal(about.faults, j.subject.faults)
	switch {
	case about.state != j.subject.state || unnamed:
	case same && equalExceptNumbers(j.message, sentence):
		j.changedSince = time.Time{}
		return
	case !j.due(same, now):
		return
	}
	j.message, j.subject, j.writtenAt, j.changedSince = sentence, about, now, time.Time{}
}

// due reports whether to write another message. same means that its reason and faults have not changed.
func (j *judgement) due(same bool, now time.Time) bool {
	if j.changedSince.IsZero() {
		j.changedSince = now
	}
	if same {
		return now.Sub(j.writtenAt) >= messageInterval
	}
	return now.Sub(j.writtenAt) >= reasonInterval && now.Sub(j.changedSince) >= reasonHoldTime
}
