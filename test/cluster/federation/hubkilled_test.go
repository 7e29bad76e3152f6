// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// killHub kills all programs of the hub, and starts them when the test ends, unless that was done before.
func killHub(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := hub.KillServices(ctx, plan.HubHost); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.StartServices(context.WithoutCancel(ctx), plan.HubHost); err != nil {
			t.Error(err)
		}
	})
}

// startHub starts a killed hub and the federator, and waits until members are ready.
func (f *federator) startHub(ctx context.Context) {
	f.t.Helper()
	took(f.t, "the hub answers again after", func() {
		if err := errors.Join(hub.StartServices(ctx, plan.HubHost), hub.AwaitHub(ctx)); err != nil {
			f.t.Fatal(err)
		}
	})
	f.startIfEnded(ctx)
	for _, member := range members {
		await(ctx, f.t, kube.MemberReady(hub.client, member.as))
	}
}

// killedDuring kills the hub a while after commands of `ktsn fed` have begun in parallel. Commands that fail must
// report why.
func (f *federator) killedDuring(ctx context.Context, after time.Duration, commands ...[]string) {
	f.t.Helper()
	var all sync.WaitGroup
	outputs, failed := make([]string, len(commands)), make([]error, len(commands))
	for i, arguments := range commands {
		all.Go(func() { outputs[i], failed[i] = f.try(ctx, arguments...) })
	}
	time.Sleep(after)
	killHub(ctx, f.t)
	all.Wait()
	for i, arguments := range commands {
		f.t.Logf("killed after %v: %s: %.150s", after, arguments[0], strings.ReplaceAll(outputs[i], "\n", " "))
		if failed[i] != nil && !strings.Contains(outputs[i], "the hub does not answer; ask again when it does") {
			f.t.Errorf("the hub was killed, and `ktsn fed %s` says %s", strings.Join(arguments, " "), outputs[i])
		}
	}
}

const configMapsOfMany = 20

// many returns a manifest of a Deployment and enough ConfigMaps that applying it takes a moment.
func many(namespace, name string) string {
	return deployment(namespace, name, 1) + configMaps(name, configMapsOfMany)
}

// hasMany returns a question for await: whether want objects of such a manifest exist.
func (p *place) hasMany(namespace, name string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := p.hasConfigMaps(namespace, name+"-", want)(ctx); err != nil {
			return err
		}
		if want == 0 {
			return p.without(namespace, name)(ctx)
		}
		return p.runs(namespace, name, 1)(ctx)
	}
}

// momentsOfDeath returns when the hub is killed: only one moment in the short form.
func momentsOfDeath() []time.Duration {
	if short() {
		return []time.Duration{150 * time.Millisecond}
	}
	return []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}
}

func TestKilledHubLosesNothing(t *testing.T) {
	ctx, f := needFederator(t)
	namespace, from, to := newNamespace(ctx, t), members[0], members[1]
	f.deployMany(ctx, namespace, "stays")
	f.deployMany(ctx, namespace, "many-0")
	before := uids(ctx, t, namespace, "stays")
	f.deploy(ctx, namespace, from)
	for i, after := range momentsOfDeath() {
		goes, comes := fmt.Sprintf("many-%d", i), fmt.Sprintf("many-%d", i+1)
		// This member has no cluster: only its agent is missing.
		member := fmt.Sprintf("killed-%d", i)
		commands := [][]string{
			f.deploymentOfMany(namespace, comes),
			{"move", namespace + "/web", "--to", to.as},
			{"delete", namespace + "/" + goes},
			{"join", member, "--id", string(uuid.NewUUID()), "--agent-kubeconfig", filepath.Join(f.folder, member)},
		}
		f.t.Cleanup(func() { f.remove(context.WithoutCancel(ctx), namespace, comes) })
		stop := neverNone(ctx, namespace)
		f.killedDuring(ctx, after, commands...)
		f.startHub(ctx)
		for _, command := range commands {
			if _, err := f.try(ctx, command...); err != nil && !strings.Contains(err.Error(), "there is no workload "+namespace+"/"+goes) {
				t.Error(err)
			}
		}
		took(t, "all is as it was asked for after another", func() {
			for _, place := range members {
				await(ctx, t, place.hasMany(namespace, comes, configMapsOfMany))
				await(ctx, t, place.hasMany(namespace, goes, 0))
			}
			await(ctx, t, to.runs(namespace, "web", 1))
			await(ctx, t, from.gone(namespace))
			await(ctx, t, agentReads(filepath.Join(f.folder, member), member))
		})
		if looks, none := stop(); none > 0 || looks == 0 {
			t.Errorf("%d of %d times no pod of the workload that moves was ready", none, looks)
		}
		f.run(ctx, "unjoin", member, "--force")
		await(ctx, t, leftNothing(member))
		same(ctx, t, namespace, "stays", before)
		from, to = to, from
		for _, place := range members {
			place.restartAgent(ctx, t)
		}
	}
}

// deploymentOfMany returns the command that deploys such a workload to both members.
func (f *federator) deploymentOfMany(namespace, name string) []string {
	f.t.Helper()
	f.write(name+".yaml", many(namespace, name))
	return []string{"deploy", namespace + "/" + name, "-f", filepath.Join(f.folder, name+".yaml"), "--clusters", members[0].as + "," + members[1].as}
}

// deployMany deploys many objects to both members until the test ends.
func (f *federator) deployMany(ctx context.Context, namespace, name string) {
	f.t.Helper()
	f.run(ctx, f.deploymentOfMany(namespace, name)...)
	f.t.Cleanup(func() { f.remove(context.WithoutCancel(ctx), namespace, name) })
	for _, member := range members {
		await(ctx, f.t, member.hasMany(namespace, name, configMapsOfMany))
	}
}

// remove removes a workload, which may be gone.
func (f *federator) remove(ctx context.Context, namespace, name string) {
	f.t.Helper()
	if output, err := f.try(ctx, "delete", namespace+"/"+name); err != nil && !strings.Contains(output, "there is no workload") {
		f.t.Error(err)
	}
}
