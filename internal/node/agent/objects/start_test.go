// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func TestNewStartSpreadsAgents(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct{ uptime, spread time.Duration }{
		"after a power cut":                  {time.Minute, spreadAfterBoot},
		"on machines that have been up long": {24 * time.Hour, spreadElse},
	} {
		t.Run(name, func(t *testing.T) {
			const agents, parts = 1000, 10
			var in [parts]int
			for range agents {
				at := NewStart(now, test.uptime).at.Sub(now)
				if at < 0 || at >= test.spread {
					t.Fatalf("one asks after %v, of %v", at, test.spread)
				}
				in[at*parts/test.spread]++
			}
			for part, count := range in {
				if count < agents/parts/2 || count > agents/parts*2 { // five times the deviation of a fair draw away
					t.Errorf("%d of %d ask in tenth %d of the time", count, agents, part)
				}
			}
		})
	}
}

func TestInformerWaitsForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var listed, seconds []time.Duration
		source := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				listed = append(listed, time.Since(began))
				return &corev1.PodList{}, nil
			},
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				seconds = append(seconds, time.Duration(*options.TimeoutSeconds)*time.Second)
				cancel()
				return nil, errors.New("enough")
			},
		}
		start := Start{began.Add(10 * time.Second)}
		start.Informer(source, &corev1.Pod{}, 0, nil).RunWithContext(ctx)
		if len(listed) != 1 || listed[0] != 10*time.Second {
			t.Errorf("it lists after %v", listed)
		}
		if len(seconds) != 1 || seconds[0] < WatchTimeout || seconds[0] > 2*WatchTimeout {
			t.Errorf("its watches last %v", seconds)
		}
	})
}
