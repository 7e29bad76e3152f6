// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newEvent returns an event with a count, first and last seen at these minutes.
func newEvent(name, reason, message string, count int32, first, last int) *corev1.Event {
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: "Normal", Reason: reason, Message: message, Count: count,
		InvolvedObject: corev1.ObjectReference{Kind: "TSNService", Namespace: "ns", Name: "plant"}}
	event.FirstTimestamp, event.LastTimestamp = metav1.NewTime(noon.Add(time.Duration(first)*time.Minute)), metav1.NewTime(noon.Add(time.Duration(last)*time.Minute))
	return event
}

// wantEvent returns the same event as the API shows it.
func wantEvent(reason, message string, count int32, first, last int) federation.Event {
	return federation.Event{At: noon.Add(time.Duration(last) * time.Minute), First: noon.Add(time.Duration(first) * time.Minute), Type: "Normal", Namespace: "ns",
		Object: "TSNService/plant", Reason: reason, Message: message, Count: count}
}

// newSeriesEvent returns an event of events.k8s.io, which uses other fields.
func newSeriesEvent(name, reason, message string, count int32, first, last int) *corev1.Event {
	event := newEvent(name, reason, message, 0, first, last)
	event.EventTime = metav1.NewMicroTime(event.FirstTimestamp.Time)
	event.Series = &corev1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(event.LastTimestamp.Time)}
	event.FirstTimestamp, event.LastTimestamp = metav1.Time{}, metav1.Time{}
	return event
}

func TestEqualEventsAreMerged(t *testing.T) {
	others := []*corev1.Event{
		newEvent("type", "Linked", "a", 1, 20, 20), newEvent("object", "Linked", "a", 1, 21, 21), newEvent("message", "Linked", "b", 1, 22, 22),
		newEvent("reason", "Unlinked", "a", 1, 23, 23),
	}
	others[0].Type, others[1].InvolvedObject.Name = "Warning", "other"
	all := fake.NewClientBuilder()
	for _, event := range append(others, newEvent("one", "Linked", "a", 2, 3, 5), newEvent("two", "Linked", "a", 0, 1, 1), newSeriesEvent("three", "Linked", "a", 4, 2, 9)) {
		all = all.WithObjects(event)
	}
	got, err := Events(t.Context(), all.Build(), "ns")
	if err != nil {
		t.Fatal(err)
	}
	want := []federation.Event{wantEvent("Unlinked", "a", 1, 23, 23), wantEvent("Linked", "b", 1, 22, 22), wantEvent("Linked", "a", 1, 21, 21), wantEvent("Linked", "a", 1, 20, 20),
		wantEvent("Linked", "a", 7, 1, 9)}
	want[2].Object, want[3].Type = "TSNService/other", "Warning"
	if len(got.Items) != len(want) {
		t.Fatalf("told %+v", got.Items)
	}
	for i := range want {
		got.Items[i].At, got.Items[i].First = got.Items[i].At.UTC(), got.Items[i].First.UTC()
		if !reflect.DeepEqual(got.Items[i], want[i]) {
			t.Errorf("told %+v, want %+v", got.Items[i], want[i])
		}
	}
}

func TestEventCountIsBounded(t *testing.T) {
	all := []corev1.Event{*newEvent("one", "Linked", "a", math.MaxInt32, 1, 1), *newEvent("two", "Linked", "a", 5, 1, 2)}
	if got := fold(all); len(got) != 1 || got[0].Count != math.MaxInt32 {
		t.Errorf("told %+v", got)
	}
}

func TestNewestEventsAfterMerge(t *testing.T) {
	var all []corev1.Event
	for number := range MaxEvents {
		all = append(all, *newEvent(fmt.Sprintf("same%d", number), "Linked", "a", 1, number, number), *newEvent(fmt.Sprintf("other%d", number), "Linked", strconv.Itoa(number), 1, 0, 0))
	}
	got := youngest(fold(all))
	if len(got) != MaxEvents || got[0].Count != MaxEvents || got[1].Count != 1 {
		t.Errorf("told %d, the first of which are %+v", len(got), got[:2])
	}
}
