// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// MaxEvents is how many are told at once.
const MaxEvents = 500

// Events returns the youngest of a namespace, or of all, equal ones once.
func Events(ctx context.Context, c client.Reader, namespace string) (*federation.Events, error) {
	var list corev1.EventList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the events: %w", err)
	}
	return &federation.Events{Items: youngest(fold(list.Items))}, nil
}

func youngest(all []federation.Event) []federation.Event {
	slices.SortFunc(all, func(a, b federation.Event) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Object, b.Object), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Message, b.Message))
	})
	return all[:min(len(all), MaxEvents)]
}

// fold counts events of which the same is told. The hub has several of those that were written by several programs, or after a while.
func fold(all []corev1.Event) []federation.Event {
	events := []federation.Event{}
	at := map[federation.Event]int{}
	for i := range all {
		event := describeEvent(&all[i])
		same := federation.Event{Type: event.Type, Namespace: event.Namespace, Object: event.Object, Reason: event.Reason, Message: event.Message}
		have, ok := at[same]
		if !ok {
			at[same] = len(events)
			events = append(events, event)
			continue
		}
		e := &events[have]
		e.Count += min(event.Count, math.MaxInt32-e.Count)
		if event.At.After(e.At) {
			e.At = event.At
		}
		if event.First.Before(e.First) {
			e.First = event.First
		}
	}
	return events
}

// describeEvent is an event as it is told. The two ways to write events keep in different fields how often and when it was seen.
func describeEvent(event *corev1.Event) federation.Event {
	currentEvent := federation.Event{
		Type: event.Type, Namespace: event.InvolvedObject.Namespace, Reason: event.Reason, Message: event.Message,
		Object: event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name, Count: max(event.Count, 1),
		At:    firstOf(event.LastTimestamp.Time, event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time),
		First: firstOf(event.FirstTimestamp.Time, event.EventTime.Time, event.LastTimestamp.Time, event.CreationTimestamp.Time),
	}
	if series := event.Series; series != nil {
		currentEvent.Count = max(currentEvent.Count, series.Count)
		currentEvent.At = firstOf(series.LastObservedTime.Time, currentEvent.At)
	}
	return currentEvent
}

// firstOf times is the first that is given.
func firstOf(times ...time.Time) time.Time {
	for _, at := range times {
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}
