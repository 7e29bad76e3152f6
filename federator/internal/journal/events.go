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
	told := []federation.Event{}
	at := map[federation.Event]int{}
	for i := range all {
		one := describeEvent(&all[i])
		same := federation.Event{Type: one.Type, Namespace: one.Namespace, Object: one.Object, Reason: one.Reason, Message: one.Message}
		have, is := at[same]
		if !is {
			at[same] = len(told)
			told = append(told, one)
			continue
		}
		of := &told[have]
		of.Count += min(one.Count, math.MaxInt32-of.Count)
		if one.At.After(of.At) {
			of.At = one.At
		}
		if one.First.Before(of.First) {
			of.First = one.First
		}
	}
	return told
}

// describeEvent is an event as it is told. The two ways to write events keep in different fields how often and when it was seen.
func describeEvent(event *corev1.Event) federation.Event {
	told := federation.Event{
		Type: event.Type, Namespace: event.InvolvedObject.Namespace, Reason: event.Reason, Message: event.Message,
		Object: event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name, Count: max(event.Count, 1),
		At:    firstOf(event.LastTimestamp.Time, event.EventTime.Time, event.FirstTimestamp.Time, event.CreationTimestamp.Time),
		First: firstOf(event.FirstTimestamp.Time, event.EventTime.Time, event.LastTimestamp.Time, event.CreationTimestamp.Time),
	}
	if series := event.Series; series != nil {
		told.Count = max(told.Count, series.Count)
		told.At = firstOf(series.LastObservedTime.Time, told.At)
	}
	return told
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
