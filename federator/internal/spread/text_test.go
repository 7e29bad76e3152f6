// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// liar returns random texts, some of them long.
type liar struct{ *rand.Rand }

func (l *liar) text() string {
	piece := []string{"a", "é", "線", "𝄞", "\x00", "\xff", "; ", "%s", "\n"}[l.IntN(9)]
	return strings.Repeat(piece, l.IntN(1<<l.IntN(16)))
}

func (l *liar) texts() []string {
	var all []string
	for range l.IntN(30) {
		all = append(all, l.text())
	}
	return all
}

func (l *liar) condition() metav1.Condition {
	return metav1.Condition{Type: tsn.ConditionReady, Status: metav1.ConditionStatus([]string{"True", "False", "Unknown", "", l.text()}[l.IntN(5)]),
		Reason: []string{"AsAsked", "", "a b", l.text()}[l.IntN(4)], Message: l.text(), ObservedGeneration: l.Int64() - 1<<62}
}

func (l *liar) on() []Placement {
	var all []Placement
	for number := range l.IntN(150) {
		all = append(all, Placement{Cluster: fmt.Sprintf("c%d", number), Applied: l.IntN(2) == 0, Message: l.text(), Conditions: []metav1.Condition{l.condition()}})
	}
	return all
}

func TestConditionsAreValidForAnyReports(t *testing.T) {
	for seed := range uint64(30) {
		l := &liar{rand.New(rand.NewPCG(seed, 2))}
		var findings []Finding
		for range l.IntN(150) {
			findings = append(findings, Finding{Reason: ReasonUntrusted, Text: "of a cluster: " + Some(l.texts()), Blocks: l.IntN(200) == 0})
		}
		findings = append(findings, Finding{Reason: ReasonUntrusted, Text: l.text()})
		conditions := []metav1.Condition{Ready("service", findings, l.on()), Ready("service", nil, l.on()), Degraded(findings), SanitizeCondition(l.condition())}
		for i, condition := range conditions {
			if condition.LastTransitionTime.IsZero() {
				condition.LastTransitionTime = metav1.Now() // as the API server's clients do
			}
			condition.Type = fmt.Sprintf("Type%d", i)
			if wrong := validation.ValidateConditions([]metav1.Condition{condition}, field.NewPath("conditions")); len(wrong) > 0 {
				t.Errorf("seed %d, condition %d: %.300s", seed, i, wrong.ToAggregate())
			}
			if !utf8.ValidString(condition.Message) {
				t.Errorf("seed %d, condition %d has a message with half characters", seed, i)
			}
		}
	}
}

func TestMessagesCountOmittedItems(t *testing.T) {
	long := strings.Repeat("é", maxQuotedChars)
	for have, want := range map[string]string{
		Quoted(long):                                     long,
		Quoted(long + "xyz"):                             long + "... and 3 more characters",
		Quoted("a\xffb"):                                 "a\uFFFDb",
		Quoted("up\n\x1b[2J\u009bdown\t"):                "up  [2J down ",
		Some([]string{"a", "b", "c"}):                    "a; b; c",
		Some([]string{"a", "b", "c", "d"}):               "a; b; c; and 1 more",
		Names([]string{"a", "b"}):                        "a, b",
		Names(strings.Fields("a b c d e f g h i j k l")): "a, b, c, d, e, f, g, h, i, j and 2 more",
		Message([]string{"a", "b"}):                      "a; b",
		Message(nil):                                     "",
	} {
		if have != want {
			t.Errorf("%.100q, want %.100q", have, want)
		}
	}
	if message := Message(strings.Fields(strings.Repeat(strings.Repeat("x", 10000)+" ", 10))); !strings.HasSuffix(message, "; and 7 more") {
		t.Errorf("the message ends with %q", message[len(message)-20:])
	}
}
