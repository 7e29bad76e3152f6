// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
)

const (
	// moves is how often a workload is moved there, and as often back.
	moves = 3
	// webPort is the workload's port on each node.
	webPort = 30080
	// asksEach is the interval of the client's requests, and answersWithin their timeout.
	asksEach      = 20 * time.Millisecond
	answersWithin = time.Second
)

// web returns a Deployment that answers by HTTP, and a Service at the same port of each node.
func web(namespace string) string {
	text := strings.Replace(deployment(namespace, "web", 1), "args: [pause]}",
		"args: [netexec, --http-port=8080, --udp-port=8081], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}", 1)
	return text + fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {namespace: %s, name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: %d}]}
`, namespace, webPort)
}

// silence is when no cluster answered a client.
type silence struct {
	asked, unanswered int
	longest           time.Duration
}

// client asks both clusters at once, one round after the other, until it is stopped. A round without an answer from
// either is a silence.
func (b *bench) client(ctx context.Context) (stop func() silence) {
	ctx, cancel := context.WithCancel(ctx)
	// Each request has its own connection: a pod that ends takes its connections with it.
	asking := &http.Client{Timeout: answersWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	var seen silence
	var ended sync.WaitGroup
	ended.Go(func() {
		last := time.Now()
		for ; ctx.Err() == nil; time.Sleep(asksEach) {
			answered := b.anybodyAnswers(ctx, asking)
			if ctx.Err() != nil {
				return
			}
			seen.asked++
			if !answered {
				seen.unanswered++
				continue
			}
			seen.longest = max(seen.longest, time.Since(last))
			last = time.Now()
		}
	})
	return func() silence { cancel(); ended.Wait(); return seen }
}

// anybodyAnswers waits for the first answer.
func (b *bench) anybodyAnswers(ctx context.Context, asking *http.Client) bool {
	answers := make(chan bool, len(members))
	for _, member := range members {
		go func() { answers <- member.answers(ctx, asking) }()
	}
	for range members {
		if <-answers {
			return true
		}
	}
	return false
}

func (p *place) answers(ctx context.Context, asking *http.Client) bool {
	url := fmt.Sprintf("http://%s:%d/hostname", p.ControlPlane().Address, webPort)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := asking.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}

// move moves a workload there and back, while a client sends requests to both clusters.
func (b *bench) move(ctx context.Context, t *testing.T) {
	b.f.write("web.yaml", web(b.namespace))
	b.f.run(ctx, "deploy", b.namespace+"/web", "-f", filepath.Join(b.f.folder, "web.yaml"), "--clusters", b.east.as)
	await(ctx, t, b.east.runs(b.namespace, "web", 1))
	t.Cleanup(func() { b.f.run(context.WithoutCancel(ctx), "delete", b.namespace+"/web") })
	asking := &http.Client{Timeout: answersWithin}
	await(ctx, t, func(ctx context.Context) error {
		if !b.anybodyAnswers(ctx, asking) {
			return fmt.Errorf("nobody answers at port %d", webPort)
		}
		return nil
	})
	var ready, whole, silent []float64
	var looks, none int
	var seen silence
	from, to := b.east, b.west
	for range times(2 * moves) {
		stopLooking, stopAsking := neverNone(ctx, b.namespace), b.client(ctx)
		bounded, cancel := context.WithTimeout(ctx, clustertest.Patience)
		at := to.arrives(bounded, t, b.namespace, "web", 1)
		began := time.Now()
		b.f.run(ctx, "move", b.namespace+"/web", "--to", to.as)
		whole = append(whole, time.Since(began).Seconds())
		select {
		case when := <-at:
			ready = append(ready, when.ready.Sub(began).Seconds())
		case <-bounded.Done():
			t.Errorf("%s has no ready pod", to.as)
		}
		cancel()
		await(ctx, t, from.gone(b.namespace))
		time.Sleep(time.Second) // for what becomes known later
		lookedAt, without := stopLooking()
		looks, none = looks+lookedAt, none+without
		asking := stopAsking()
		seen.asked, seen.unanswered = seen.asked+asking.asked, seen.unanswered+asking.unanswered
		silent = append(silent, asking.longest.Seconds())
		from, to = to, from
	}
	b.add(t,
		over("move: from the command until the new one is ready", "s", ready...).most(10),
		over("move: times that none was ready", "", float64(none)).most(0),
		over("move: until the command has ended", "s", whole...),
		over("move: longest time between two answers, of a client that asks both clusters", "s", silent...),
		over("move: rounds in which neither cluster answered the client", "", float64(seen.unanswered)),
	)
	b.section("Moves", fmt.Sprintf("%d moves. The readiness of both was looked at %d times. The client sent %d rounds of requests to a Service of type NodePort, to both clusters\nat once.",
		len(whole), looks, seen.asked), nil)
}
