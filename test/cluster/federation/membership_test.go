// SPDX-License-Identifier: Apache-2.0

//go:build federation

package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// membership runs `ktsn-cluster join` or `unjoin` for a member.
func (p *place) membership(ctx context.Context, t *testing.T, command string, options ...string) {
	t.Helper()
	arguments := append([]string{"--name", p.Name, "--dir", clustertest.Dir(), command, "--hub", hub.Name, "--as", p.as}, options...)
	took(t, p.as+" "+command, func() {
		if output, err := exec.CommandContext(ctx, testlab.Program(t, "ktsn-cluster"), arguments...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", arguments, err, output)
		}
	})
}

// syncMode returns a member's mode, Push or Pull.
func (p *place) syncMode(ctx context.Context, t *testing.T) string {
	t.Helper()
	text, err := hub.client.Discovery().RESTClient().Get().AbsPath("/apis/cluster.karmada.io/v1alpha1/clusters", p.as).DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var member struct {
		Spec struct {
			SyncMode string `json:"syncMode"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(text, &member); err != nil {
		t.Fatal(err)
	}
	return member.Spec.SyncMode
}

// forgetHeartbeat removes the federator's heartbeat, which the next federator recreates: while something is propagated
// to a member, Karmada's own tool waits for ever for the member to leave.
func (p *place) forgetHeartbeat(ctx context.Context, t *testing.T) {
	t.Helper()
	err := hub.client.CoreV1().ConfigMaps(federatorNamespace).Delete(ctx, v1alpha1.HubHeartbeat, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		list, err := hub.dynamic.Resource(works).Namespace("karmada-es-"+p.as).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if text, _ := list.Items[i].MarshalJSON(); strings.Contains(string(text), v1alpha1.HubHeartbeat) {
				return fmt.Errorf("%s still has Work %s", p.as, list.Items[i].GetName())
			}
		}
		return nil
	})
}

func TestLeaveAndJoin(t *testing.T) {
	ctx := needFederation(t)
	leaving := members[len(members)-1]
	leaving.forgetHeartbeat(ctx, t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if kube.MemberReady(hub.client, leaving.as)(ctx) != nil {
			leaving.membership(ctx, t, "join")
		}
	})
	leaving.membership(ctx, t, "unjoin")
	if err := kube.MemberReady(hub.client, leaving.as)(ctx); err == nil {
		t.Error("the hub still has it")
	}
	for _, mode := range []struct {
		name    string
		options []string
	}{{"Push", []string{"--push"}}, {"Pull", nil}} {
		leaving.membership(ctx, t, "join", mode.options...)
		if got := leaving.syncMode(ctx, t); got != mode.name {
			t.Errorf("its mode is %s, want %s", got, mode.name)
		}
		namespace := newNamespace(ctx, t)
		hub.apply(ctx, t, deployment(namespace, "joined", 1)+everywhere(namespace, "joined"))
		for _, member := range members {
			await(ctx, t, member.runs(namespace, "joined", 1))
		}
		if mode.name == "Push" {
			leaving.membership(ctx, t, "unjoin", mode.options...)
		}
	}
}
