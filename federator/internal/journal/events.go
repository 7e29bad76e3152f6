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

// MaxEvents limits the events of one response.
const MaxEvents = 500

// Events returns the newest events of a namespace, or of all namespaces. Equal events are merged.
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

// fold merges events with equal contents. The hub has several of an event that several programs, or one program after a
// while, have written.
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

// describeEvent returns an event as the API shows it. The two event APIs store count and time in different fields.
func describeEvent(event *corev1.Event) federation.Event {
	described := federation.Event{
		Type: event.Type, Namespace: event.InvolvedObject.Namespace, Reason: event.Reason, Message: event.Message,
		Object: event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name, Count: max(event.Count, 1),
		At:    firstOf(event.LastTimestamp.Time, event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time),
		First: firstOf(event.FirstTimestamp.Time, event.EventTime.Time, event.LastTimestamp.Time, event.CreationTimestamp.Time),
	}
	if series := event.Series; series != nil {
		described.Count = max(described.Count, series.Count)
		described.At = firstOf(series.LastObservedTime.Time, described.At)
	}
	return described
}

// firstOf returns the first time that is set.
func firstOf(times ...time.Time) time.Time {
	for _, at := range times {
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}
