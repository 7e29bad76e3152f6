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

// Texts of other programs are shortened before they are written, because the API server rejects objects with longer
// ones.
const (
	// maxQuotedChars limits a foreign text within a message.
	maxQuotedChars = 500
	// maxQuotedItems limits the listed items with explanations, maxNames the listed names.
	maxQuotedItems, maxNames = 3, 10
	// maxMessageBytes and maxReasonBytes are the limits of a condition's message and reason.
	maxMessageBytes, maxReasonBytes = 32 << 10, 1024
	// suffixBytes is the room for "and N more".
	suffixBytes = 32
)

// Quoted returns a foreign text for a message: shortened, on one line, and without control characters.
func Quoted(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	count := 0
	for at := range text {
		if count++; count > maxQuotedChars {
			return fmt.Sprintf("%s... and %d more characters", text[:at], utf8.RuneCountInString(text[at:]))
		}
	}
	return text
}

// Some returns the first texts of a list for a message.
func Some(texts []string) string {
	var quoted []string
	for _, text := range texts[:min(len(texts), maxQuotedItems)] {
		quoted = append(quoted, Quoted(text))
	}
	if len(texts) > maxQuotedItems {
		quoted = append(quoted, fmt.Sprintf("and %d more", len(texts)-maxQuotedItems))
	}
	return strings.Join(quoted, "; ")
}

// Names returns the first names of a list for a message.
func Names(names []string) string {
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}

// Message joins as many texts as the message of a condition has room for.
func Message(texts []string) string {
	var message strings.Builder
	for i, text := range texts {
		if i > 0 {
			text = "; " + text
		}
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
		room := maxMessageBytes - message.Len() - suffixBytes
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

// cut shortens a text to a number of bytes without splitting a character.
func cut(text string, limit int) string {
	for limit > 0 && limit < len(text) && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:min(limit, len(text))]
}

// unreadable replaces a foreign condition's invalid reason.
const unreadable = "Unreadable"

var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// SanitizeCondition makes a foreign condition acceptable to the API server: its writer may have an older validation, or
// none.
func SanitizeCondition(condition metav1.Condition) metav1.Condition {
	switch condition.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	default:
		condition.Status = metav1.ConditionUnknown
	}
	if len(condition.Reason) > maxReasonBytes || !reasonForm.MatchString(condition.Reason) {
		condition.Reason = unreadable
	}
	if condition.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = metav1.NewTime(time.Unix(0, 0))
	}
	condition.ObservedGeneration = max(condition.ObservedGeneration, 0)
	condition.Message = Quoted(condition.Message)
	return condition
}
