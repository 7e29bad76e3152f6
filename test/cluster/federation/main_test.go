// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cluster"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/clustertest"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// place is the hub or a member.
type place struct {
	*cluster.Cluster
	// as is the member's name at the hub.
	as      string
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// The federation under test, hub nil if there is none.
var (
	hub     *place
	members []*place
	whyNot  string
)

const firstFew = 10 * time.Second

var await = clustertest.Await

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), firstFew)
	if err := connect(ctx); err != nil {
		hub, whyNot = nil, err.Error()
	}
	cancel()
	os.Exit(m.Run())
}

func connect(ctx context.Context) error {
	name, err := clustertest.Name("KTSN_FEDERATION", "`make federation` makes one")
	if err != nil {
		return err
	}
	opened, err := cluster.OpenHub(name, clustertest.Dir())
	if err != nil {
		return err
	}
	if hub, err = reach(opened); err != nil {
		return err
	}
	if err := kube.Wait(ctx, kube.HubServes(hub.client)); err != nil {
		return err
	}
	return findMembers(ctx)
}

func reach(c *cluster.Cluster) (*place, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	return &place{Cluster: c, config: config, client: client, dynamic: objects}, err
}

// findMembers maps the hub's members to clusters on its WAN by their API servers, in the order of the sites.
func findMembers(ctx context.Context) error {
	text, err := hub.client.Discovery().RESTClient().Get().AbsPath("/apis/cluster.karmada.io/v1alpha1/clusters").DoRaw(ctx)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				APIEndpoint string `json:"apiEndpoint"`
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	names := map[string]string{}
	for _, item := range list.Items {
		names[item.Spec.APIEndpoint] = item.Metadata.Name
	}
	sites, err := hub.Sites()
	if err != nil {
		return err
	}
	for _, site := range sites {
		c, err := cluster.Open(site.Name, clustertest.Dir())
		if errors.Is(err, plan.ErrNone) {
			continue // it was taken down
		}
		if err != nil {
			return err
		}
		if name, joined := names[c.Server()]; joined {
			member, err := reach(c)
			if err != nil {
				return err
			}
			member.as = name
			members = append(members, member)
		}
	}
	if len(members) < 2 {
		return fmt.Errorf("hub %s has %d members, and the tests need two; `ktsn-cluster join` makes a cluster one", hub.Name, len(members))
	}
	return nil
}

// needFederation waits until the hub reports all members ready after earlier tests, and returns a context that bounds
// the test.
func needFederation(t *testing.T) context.Context {
	t.Helper()
	if hub == nil {
		testlab.Missing(t, whyNot)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	for _, member := range members {
		await(ctx, t, kube.MemberReady(hub.client, member.as))
		await(ctx, t, kube.NodesReady(member.client, len(member.Nodes)))
	}
	return ctx
}
