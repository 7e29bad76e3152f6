// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// MaxEvents is how many are told at once.
const MaxEvents = 500

// Events returns the youngest of a namespace, or of all.
func Events(ctx context.Context, c client.Reader, namespace string) (*federation.Events, error) {
	var list corev1.EventList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the events: %w", err)
	}
	all := &federation.Events{Items: []federation.Event{}}
	for i := range list.Items {
		event := &list.Items[i]
		all.Items = append(all.Items, federation.Event{
			At: seen(event), Type: event.Type, Namespace: event.InvolvedObject.Namespace, Reason: event.Reason, Message: event.Message,
			Object: event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name, Count: max(event.Count, 1),
		})
	}
	slices.SortStableFunc(all.Items, func(a, b federation.Event) int { return b.At.Compare(a.At) })
	all.Items = all.Items[:min(len(all.Items), MaxEvents)]
	return all, nil
}

// seen is when an event was seen last. The two ways to write events keep it in different fields.
func seen(event *corev1.Event) time.Time {
	for _, at := range []time.Time{event.LastTimestamp.Time, event.EventTime.Time, event.FirstTimestamp.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return event.CreationTimestamp.Time
}
