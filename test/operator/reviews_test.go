// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
)

// between stands between API server and operator, and notes how long each review took.
type between struct {
	operator string
	client   http.Client
	mu       sync.Mutex
	took     []time.Duration
}

func (b *between) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	began := time.Now()
	asked, err := http.NewRequestWithContext(request.Context(), http.MethodPost, b.operator+webhook.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	asked.Header.Set("Content-Type", "application/json")
	answered, err := b.client.Do(asked)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	defer answered.Body.Close()
	answer, err := io.ReadAll(answered.Body)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	b.mu.Lock()
	b.took = append(b.took, time.Since(began))
	b.mu.Unlock()
	_, _ = response.Write(answer) // who does not listen any more does not mind
}

func (b *between) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.took)
}

// BenchmarkReviewsOfAThousandPods has the API server make annotated pods, eight at a time, which the operator then also
// watches, and reports how long their reviews took, TLS included. `go test -bench Reviews -benchtime 1000x`.
func BenchmarkReviewsOfAThousandPods(b *testing.B) {
	ctx := needOperator(b)
	// The operator's certificate is checked where the API server asks it; here it is in the way.
	tap := &between{operator: fmt.Sprintf("https://localhost:%d", operatorPort), client: http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}}}
	server := httptest.NewTLSServer(tap)
	defer server.Close()
	measured := webhookConfiguration("measured", 0)
	measured.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: &server.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	measured.Webhooks[0].NamespaceSelector = selector("kubernetes.io/metadata.name", "many")
	// A benchmark is called several times, with more and more pods.
	for _, object := range []client.Object{newNetwork("many", 120, "10.120.0.0/16"), newNamespace("many", nil), measured} {
		if err := admin.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			b.Fatal(err)
		}
	}
	defer func() {
		if err := admin.Delete(context.WithoutCancel(ctx), measured); err != nil {
			b.Error(err)
		}
	}()
	number := 0
	err := within(ctx, func() error { // until the API server knows of it
		number++
		if err := admin.Create(ctx, onNetwork(fmt.Sprintf("first-%d-%d", b.N, number), "many", "many", "")); err != nil {
			return err
		}
		if tap.count() == 0 {
			return errNotYet
		}
		return nil
	})
	must(b, err)
	b.ResetTimer()
	makePods(ctx, b)
	b.StopTimer()
	if len(tap.took) < b.N {
		b.Fatalf("%d reviews for %d pods", len(tap.took), b.N)
	}
	slices.Sort(tap.took)
	for _, quantile := range []struct {
		name  string
		share float64
	}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"max-ms", 1}} {
		at := min(len(tap.took)-1, int(quantile.share*float64(len(tap.took))))
		b.ReportMetric(float64(tap.took[at])/1e6, quantile.name)
	}
}

// makePods makes b.N of them.
func makePods(ctx context.Context, b *testing.B) {
	b.Helper()
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for number := range numbers {
				if err := admin.Create(ctx, onNetwork(fmt.Sprintf("pod-%d-%d", b.N, number), "many", "many", "")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for number := range b.N {
		numbers <- number
	}
	close(numbers)
	all.Wait()
}
