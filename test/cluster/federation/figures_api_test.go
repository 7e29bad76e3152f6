// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	wire "github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/shared/stats"
)

const (
	// manyWorkloads exist while the API is measured, each a Deployment for both clusters. Each podsIn-th has a pod in
	// each of them: a node has room for about a hundred.
	manyWorkloads, podsIn = 200, 10
	// askedOften is how often each request is sent: a 99th percentile needs ten answers beyond it.
	askedOften = 1000
	madeAtOnce = 8
)

// call sends a request to the API and returns its answer.
func (f *federator) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(f.folder, "token"))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+f.address+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, content)
	}
	return content, err
}

// eachWorkload calls do for each of the many workloads, some in parallel.
func eachWorkload(ctx context.Context, do func(ctx context.Context, number int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(madeAtOnce)
	for number := range times(manyWorkloads) {
		group.Go(func() error { return do(ctx, number) })
	}
	return group.Wait()
}

func workloadName(number int) string { return fmt.Sprintf("many-%03d", number) }

// makeMany creates the workloads and waits until both clusters have reported all.
func (b *bench) makeMany(ctx context.Context, t *testing.T) (count int) {
	t.Helper()
	err := eachWorkload(ctx, func(ctx context.Context, number int) error {
		replicas := 0
		if number%podsIn == 0 {
			replicas = 1
		}
		name := workloadName(number)
		_, err := b.f.call(ctx, http.MethodPost, "/api/v1/workloads", wire.DeployRequest{
			Namespace: b.namespace, Name: name, Manifest: deployment(b.namespace, name, replicas), Clusters: []string{b.east.as, b.west.as},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		body, err := b.f.call(ctx, http.MethodGet, "/api/v1/workloads?namespace="+b.namespace, nil)
		var list wire.Workloads
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		count = len(list.Items)
		for _, workload := range list.Items {
			if err == nil && !reported(&workload) {
				err = fmt.Errorf("workload %s is not healthy in both clusters: %+v", workload.Name, workload.Objects)
			}
		}
		return err
	})
	return count
}

// reported reports whether all clusters report all objects of a workload as healthy.
func reported(workload *wire.Workload) bool {
	for _, object := range workload.Objects {
		if len(object.Clusters) < len(workload.Clusters) || slices.ContainsFunc(object.Clusters, func(on wire.OnCluster) bool { return on.Health != wire.Healthy }) {
			return false
		}
	}
	return true
}

// answers measures how long the API takes to answer with many workloads.
func (b *bench) answers(ctx context.Context, t *testing.T) {
	t.Cleanup(func() {
		err := eachWorkload(context.WithoutCancel(ctx), func(ctx context.Context, number int) error {
			_, err := b.f.call(ctx, http.MethodDelete, "/api/v1/workloads/"+b.namespace+"/"+workloadName(number), nil)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	count := b.makeMany(ctx, t)
	for _, member := range members {
		member.rests(ctx, t)
	}
	questions := []string{"/api/v1/workloads", "/api/v1/workloads/" + b.namespace + "/", "/api/v1/pods", "/api/v1/networks", "/api/v1/clusters"}
	took := map[string][]time.Duration{}
	sizes := map[string]int{}
	for turn := range times(askedOften) {
		for _, question := range questions {
			path := question
			if strings.HasSuffix(path, "/") {
				path += workloadName(turn % count)
			}
			began := time.Now()
			body, err := b.f.call(ctx, http.MethodGet, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			took[question] = append(took[question], time.Since(began))
			sizes[question] = len(body)
		}
	}
	b.tellAnswers(t, count, questions, took, sizes)
	seen := b.look(ctx, t)
	b.add(t,
		over(fmt.Sprintf("at rest with %d workloads: hub with federator", count), "cores", seen.hub.cores+seen.federator.cores),
		over(fmt.Sprintf("at rest with %d workloads: hub with federator, memory", count), "MiB", seen.hub.mebibytes+seen.federator.mebibytes),
	)
}

func (b *bench) tellAnswers(t *testing.T, count int, questions []string, took map[string][]time.Duration, sizes map[string]int) {
	t.Helper()
	var all []time.Duration
	rows := [][]string{{"request", "p50, ms", "p99, ms", "most, ms", "size of the answer, kB"}}
	for _, question := range questions {
		durations := took[question]
		all = append(all, durations...)
		rows = append(rows, []string{"`GET " + strings.ReplaceAll(question, b.namespace+"/", "NAMESPACE/NAME") + "`", milliseconds(percentile(durations, stats.P50)),
			milliseconds(percentile(durations, stats.P99)), milliseconds(slices.Max(durations)), number(float64(sizes[question]) / 1000)})
	}
	worst := time.Duration(0)
	for _, question := range questions {
		worst = max(worst, percentile(took[question], stats.P99))
	}
	b.add(t,
		over(fmt.Sprintf("API with %d workloads: p99 of all requests", count), "ms", float64(percentile(all, stats.P99))/1e6).most(100),
		over(fmt.Sprintf("API with %d workloads: p99 of the slowest kind of request", count), "ms", float64(worst)/1e6).most(100),
	)
	b.section("API", fmt.Sprintf("%d workloads, each a Deployment for both clusters; each tenth has a pod in both. Of the others operators report nothing, so that\n\"pods\" asks both clusters for them by Karmada's proxy. One client asks %d times, the questions in turns.",
		count, len(took[questions[0]])), rows)
}

func milliseconds(duration time.Duration) string { return number(float64(duration) / 1e6) }
