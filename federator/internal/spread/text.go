// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Texts of other programs are shortened before they are written: the API server would reject an object with longer ones.
const (
	// quotedAtMost is how many characters of another's text stand in a sentence.
	quotedAtMost = 500
	// saidAtMost is how many things a sentence names with what is said of them, and namedAtMost how many by their names alone.
	saidAtMost, namedAtMost = 3, 10
	// messageAtMost is how many bytes the message of a condition has, and reasonAtMost its reason.
	messageAtMost, reasonAtMost = 32 << 10, 1024
	// moreAtMost has room for how many more there are.
	moreAtMost = 32
)

// Quoted is another's text, as much of it as may stand in a sentence: on one line, and without what a terminal obeys.
func Quoted(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	count := 0
	for at := range text {
		if count++; count > quotedAtMost {
			return fmt.Sprintf("%s... and %d more characters", text[:at], utf8.RuneCountInString(text[at:]))
		}
	}
	return text
}

// Some are the first of some texts, for a sentence.
func Some(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), saidAtMost)] {
		quoted = append(quoted, Quoted(text))
	}
	if len(texts) > saidAtMost {
		quoted = append(quoted, fmt.Sprintf("and %d more", len(texts)-saidAtMost))
	}
	return strings.Join(quoted, "; ")
}

// Names are the first of some names, for a sentence.
func Names(names []string) string {
	if len(names) > namedAtMost {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), len(names)-namedAtMost)
	}
	return strings.Join(names, ", ")
}

// Message has as many texts as the message of a condition has room for.
func Message(texts []string) string {
	var message strings.Builder
	for i, text := range texts {
		if i > 0 {
			text = "; " + text
		}
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
		room := messageAtMost - message.Len() - moreAtMost
		switch {
		case len(text) <= room:
			message.WriteString(text)
		case i == 0:
			message.WriteString(cut(text, room) + "...")
		default:
			return fmt.Sprintf("%s; and %d more", message.String(), len(texts)-i)
		}
	}
	return message.String()
}

// cut has no more bytes of a text than that, and no half character.
func cut(text string, most int) string {
	for most > 0 && most < len(text) && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:min(most, len(text))]
}

// unreadable is the reason of a condition of another's whose own is none.
const unreadable = "Unreadable"

var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Said is a condition that another has written, as an API server takes it: who has it may have an older one, or none that looks.
func Said(condition metav1.Condition) metav1.Condition {
	switch condition.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	default:
		condition.Status = metav1.ConditionUnknown
	}
	if len(condition.Reason) > reasonAtMost || !reasonForm.MatchString(condition.Reason) {
		condition.Reason = unreadable
	}
	if condition.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = metav1.NewTime(time.Unix(0, 0))
	}
	condition.ObservedGeneration = max(condition.ObservedGeneration, 0)
	condition.Message = Quoted(condition.Message)
	return condition
}
