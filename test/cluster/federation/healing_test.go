// SPDX-License-Identifier: Apache-2.0

//go:build healing

package federation

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/asker"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// death is a failure while a link between clusters is used.
type death struct {
	name string
	// spare means that there is another endpoint, in the client's cluster, and moves that the client gets it.
	spare, moves bool
	// unnoticed means that nothing may be lost.
	unnoticed bool
	// timed is for how long timed messages are sent as well, only if the endpoint stays.
	timed time.Duration
	die   func(d *dying, ctx context.Context, t *testing.T)
	// mend repairs what does not recover by itself, after the client was answered again; nil if nothing needs repair.
	mend func(d *dying, ctx context.Context, t *testing.T)
}

// dying is the state that failures use.
type dying struct {
	*watched
	f *federator
}

const (
	// away is for how long something is off that comes back.
	away = 10 * time.Second
	// noticed is how long killed programs take to run again.
	noticed = 5 * time.Second
)

const watchedAcross = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {namespace: %s, name: watched}
spec: {ipv4: {linkCIDR: 10.62.0.0/16}, ipv6: {linkCIDR: "fd00:62::/64"}, clusters: [%s, %s]}
`

// killsIn returns a failure that kills programs in both clusters.
func killsIn(names ...string) func(*dying, context.Context, *testing.T) {
	return func(d *dying, ctx context.Context, t *testing.T) {
		t.Helper()
		for _, member := range []*place{d.east, d.west} {
			clustertest.Kill(ctx, t, member.Cluster, names...)
		}
	}
}

// killsAt returns a failure that kills ktsnd at one end.
func killsAt(end func(*dying) *place) func(*dying, context.Context, *testing.T) {
	return func(d *dying, ctx context.Context, t *testing.T) {
		t.Helper()
		clustertest.Kill(ctx, t, end(d).Cluster, "ktsnd")
	}
}

// then returns a failure that causes second soon after first.
func then(first, second func(*dying, context.Context, *testing.T)) func(*dying, context.Context, *testing.T) {
	return func(d *dying, ctx context.Context, t *testing.T) {
		t.Helper()
		first(d, ctx, t)
		second(d, ctx, t)
	}
}

// andIsBack returns a failure that waits until killed programs run again.
func andIsBack(die func(*dying, context.Context, *testing.T)) func(*dying, context.Context, *testing.T) {
	return then(die, func(*dying, context.Context, *testing.T) { time.Sleep(noticed) })
}

func deathsAcross() []death {
	const timed = 15 * time.Second
	client, endpoint := func(d *dying) *place { return d.east }, func(d *dying) *place { return d.west }
	return []death{
		{name: "agents of both clusters are killed", unnoticed: true, timed: timed, die: andIsBack(killsIn("ktsn-agent"))},
		{name: "ktsnd of the client's cluster is killed", unnoticed: true, timed: timed, die: andIsBack(killsAt(client))},
		{name: "ktsnd of the endpoint's cluster is killed", unnoticed: true, timed: timed, die: andIsBack(killsAt(endpoint))},
		{name: "ktsnd of both clusters is killed", unnoticed: true, timed: timed, die: andIsBack(killsIn("ktsnd"))},
		{name: "operators of both clusters are killed", unnoticed: true, timed: timed, die: andIsBack(killsIn("ktsn-operator"))},
		{name: "hub is killed, and comes back after 10 s", unnoticed: true, timed: 3 * timed, die: (*dying).killHub},
		{name: "WAN is cut for 10 s", die: (*dying).cutWAN},
		{name: "hub is killed and WAN cut, for 10 s", die: (*dying).killHubAndWAN},
		{name: "endpoint's pod is deleted", spare: true, moves: true, die: (*dying).deleteEndpoint},
		{name: "operators of both clusters are killed, then endpoint's pod deleted", spare: true, moves: true, die: then(killsIn("ktsn-operator"), (*dying).deleteEndpoint)},
		{name: "endpoint's pod is deleted, then operators of both clusters killed", spare: true, moves: true, die: then((*dying).deleteEndpoint, killsIn("ktsn-operator"))},
		{name: "endpoint's pod is deleted while there is no hub for 10 s", spare: true, moves: true, die: (*dying).deleteWithoutHub},
		{name: "WAN is cut for 10 s, there is an endpoint nearby", spare: true, die: (*dying).cutWAN},
		{name: "hub is killed and WAN cut until another endpoint answers", spare: true, moves: true, die: (*dying).cutAll, mend: (*dying).mendAll},
		{name: "endpoint's cluster is cut off for 20 s, there is no other endpoint", die: offFor((*dying).cutCluster, (*dying).mendCluster)},
		{name: "programs of the endpoint's cluster hang for 20 s, there is no other endpoint", die: offFor((*dying).freezeCluster, (*dying).thawCluster)},
		{name: "endpoint's cluster is cut off until another endpoint answers", spare: true, moves: true, die: (*dying).cutCluster, mend: (*dying).mendCluster},
		{name: "programs of the endpoint's cluster hang until another endpoint answers", spare: true, moves: true, die: (*dying).freezeCluster, mend: (*dying).thawCluster},
	}
}

// TestHealing measures for how long a client is not answered by an endpoint in another cluster when something fails.
// `make bench-healing` runs it.
func TestHealing(t *testing.T) {
	needCharts(t)
	ctx, f := needFederator(t)
	w := &watched{namespace: newNamespace(ctx, t), east: members[0], west: members[1]}
	mayMount(ctx, t, w.namespace)
	names := []string{"watched", "filtered"}
	hub.apply(ctx, t, fmt.Sprintf(watchedAcross+"---"+filteredAcross, w.namespace, w.east.as, w.west.as, w.namespace, w.east.as, w.west.as))
	t.Cleanup(func() {
		for _, at := range append([]*place{hub}, members...) {
			for _, name := range names {
				if err := at.dynamic.Resource(services).Namespace(w.namespace).Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
					t.Errorf("%s: %v", at.Name, err)
				}
			}
		}
	})
	for _, member := range members {
		for _, name := range names {
			await(ctx, t, member.hasPart(w.namespace, name))
		}
		clustertest.BringAsker(ctx, t, member.Cluster)
	}
	var all []asker.Outcome
	// Write after each failure, so that an interrupted run keeps its results.
	record := func(outcome asker.Outcome) {
		all = append(all, outcome)
		if folder := os.Getenv("KTSN_HEALING_OUT"); folder != "" {
			if err := asker.Write(folder, "federation", all); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("a chain leads through the other cluster", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		chained := &watched{namespace: w.namespace, east: w.east, west: w.west}
		defer chained.ends(context.WithoutCancel(ctx), t)
		record(chained.chain(ctx, t))
	})
	for _, victim := range deathsAcross() {
		t.Run(victim.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			d := &dying{watched: &watched{namespace: w.namespace, east: w.east, west: w.west}, f: f}
			record(d.dies(ctx, t, &victim))
		})
	}
}

// dies causes a failure, and returns its effect on the client.
func (d *dying) dies(ctx context.Context, t *testing.T, victim *death) asker.Outcome {
	t.Helper()
	d.f.startIfEnded(ctx)
	for _, member := range members {
		await(ctx, t, kube.MemberReady(hub.client, member.as))
		await(ctx, t, kube.NodesReady(member.client, len(member.Nodes)))
		clustertest.RenewPods(ctx, t, member.client, "kubernetsn-system")
	}
	defer d.ends(context.WithoutCancel(ctx), t)
	if victim.mend != nil {
		defer victim.mend(d, context.WithoutCancel(ctx), t)
	}
	d.begins(ctx, t, victim.spare)
	var timed func() *asker.Timed
	if victim.timed > 0 {
		timed = d.timedOver(ctx, t, victim.timed)
		time.Sleep(asksBefore)
	}
	d.died = time.Now()
	victim.die(d, ctx, t)
	to := d.west
	if victim.moves {
		to = d.east
	}
	d.isAnswered(ctx, t, to)
	var timedFound *asker.Timed
	if timed != nil {
		timedFound = timed()
	}
	outcome := d.judged(ctx, t, victim.name, to)
	if outcome.Timed = timedFound; outcome.Timed != nil {
		t.Logf("timed: %.2f s, %d of %d lost", outcome.Timed.Gap.Seconds(), outcome.Timed.Lost, outcome.Timed.Sent)
	}
	if victim.unnoticed && (outcome.Lost+d.lost6 > 0 || outcome.Timed != nil && outcome.Timed.Lost > 0) {
		t.Errorf("messages were lost: %s; by IPv6 %d", &outcome, d.lost6)
	}
	return outcome
}

func (d *dying) deleteEndpoint(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := d.west.client.CoreV1().Pods(d.namespace).Delete(ctx, "endpoint", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (d *dying) killHub(ctx context.Context, t *testing.T) {
	t.Helper()
	killHub(ctx, t)
	time.Sleep(away)
	d.f.t = t
	d.f.startHub(ctx)
}

func (d *dying) deleteWithoutHub(ctx context.Context, t *testing.T) {
	t.Helper()
	killHub(ctx, t)
	d.died = time.Now()
	d.deleteEndpoint(ctx, t)
	time.Sleep(away)
	d.f.t = t
	d.f.startHub(ctx)
}

// cutWAN cuts the endpoint's cluster off the WAN for some time.
func (d *dying) cutWAN(ctx context.Context, t *testing.T) {
	t.Helper()
	d.died = time.Now()
	if err := hub.CutSite(ctx, d.west.Name); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hub.MendSite(context.WithoutCancel(ctx), d.west.Name); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(away)
}

func (d *dying) killHubAndWAN(ctx context.Context, t *testing.T) {
	t.Helper()
	killHub(ctx, t)
	d.cutWAN(ctx, t)
	d.f.t = t
	d.f.startHub(ctx)
}

// cutAll kills the hub and cuts the WAN until they are mended.
func (d *dying) cutAll(ctx context.Context, t *testing.T) {
	t.Helper()
	killHub(ctx, t)
	d.died = time.Now()
	if err := hub.CutSite(ctx, d.west.Name); err != nil {
		t.Fatal(err)
	}
}

func (d *dying) mendAll(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := hub.MendSite(ctx, d.west.Name); err != nil {
		t.Error(err)
	}
	d.f.t = t
	d.f.startHub(ctx)
}

// offFor switches the endpoint's cluster off for some time.
func offFor(off, on func(*dying, context.Context, *testing.T)) func(*dying, context.Context, *testing.T) {
	return func(d *dying, ctx context.Context, t *testing.T) {
		t.Helper()
		defer on(d, context.WithoutCancel(ctx), t)
		off(d, ctx, t)
		time.Sleep(2 * away)
	}
}

// freezeCluster stops all programs of the endpoint's cluster; its kernel keeps running.
func (d *dying) freezeCluster(_ context.Context, t *testing.T) {
	t.Helper()
	if err := d.west.Freeze(d.west.ControlPlane().Name); err != nil {
		t.Error(err)
	}
}

func (d *dying) thawCluster(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := d.west.Thaw(d.west.ControlPlane().Name); err != nil {
		t.Error(err)
	}
	await(ctx, t, kube.NodesReady(d.west.client, len(d.west.Nodes))) // the hub may not have missed it
	await(ctx, t, kube.MemberReady(hub.client, d.west.as))
}

// cutCluster pulls the cable of the endpoint's node, the only one of its cluster.
func (d *dying) cutCluster(ctx context.Context, t *testing.T) {
	t.Helper()
	d.died = time.Now()
	if err := d.west.CutNode(ctx, d.west.ControlPlane().Name); err != nil {
		t.Fatal(err)
	}
}

func (d *dying) mendCluster(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := d.west.StartNode(ctx, d.west.ControlPlane().Name); err != nil {
		t.Error(err)
	}
	await(ctx, t, kube.NodesReady(d.west.client, len(d.west.Nodes))) // the hub may not have missed it
	await(ctx, t, kube.MemberReady(hub.client, d.west.as))
}
