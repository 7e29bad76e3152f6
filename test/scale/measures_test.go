// SPDX-License-Identifier: Apache-2.0

//go:build thousand

package scale

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (w *world) heap() int64 {
	w.t.Helper()
	var bytes int64
	w.call("Heap", None{}, &bytes)
	return bytes
}

// steadyHeap is the heap once it stays: what agents need only to start has gone.
func (w *world) steadyHeap() int64 {
	w.t.Helper()
	last := w.heap()
	for range 30 {
		time.Sleep(5 * time.Second)
		now := w.heap()
		if now > last*99/100 {
			return now
		}
		last = now
	}
	return last
}

// removeNode takes away a node with its pods, as when a machine is given back.
func (w *world) removeNode(ctx context.Context, number, pods int) {
	w.t.Helper()
	now := client.GracePeriodSeconds(0)
	for i := range pods {
		must(w.t, w.admin.Delete(ctx, plainPod(podName(number, i), "default"), now))
	}
	must(w.t, w.admin.Delete(ctx, plainPod("ktsn-agent-"+strconv.Itoa(number), system), now))
	must(w.t, w.admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}}))
}

// served sums what the API server says of all requests that it has answered, watches when they end.
func (w *world) served(ctx context.Context) float64 {
	w.t.Helper()
	text, err := w.metrics(ctx)
	must(w.t, err)
	sum := 0.0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "apiserver_request_total{") {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			must(w.t, err)
			sum += value
		}
	}
	return sum
}

func (w *world) metrics(ctx context.Context) (string, error) {
	client, err := rest.HTTPClientFor(w.config)
	if err != nil {
		return "", err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(w.config.Host, "/")+"/metrics", nil)
	if err != nil {
		return "", err
	}
	reply, err := client.Do(asked)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return string(text), err
}

// at is a quantile of durations in order, in milliseconds.
func at(sorted []time.Duration, quantile float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(quantile*float64(len(sorted))), len(sorted)-1)].Seconds() * 1e3
}

// operatorRestarts is how often it was.
func (w *world) operatorRestarts() int {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "operator.log"))
	must(w.t, err)
	return strings.Count(string(text), operatorEnded)
}
