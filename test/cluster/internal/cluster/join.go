// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// JoinOptions are the options of a membership.
type JoinOptions struct {
	// As is the member's name at the hub.
	As string
	// Push has the hub reach into the cluster, instead of an agent in the cluster connecting to the hub.
	Push bool
	// Builder builds the agent.
	Builder *components.Builder
}

const agentImage = "kubernetsn.io/karmada-agent:" + components.Tag

// Join connects a cluster to the hub's WAN, registers it with karmadactl, and waits until the hub reports it ready.
func (c *Cluster) Join(ctx context.Context, member *Cluster, options JoinOptions) error {
	if member.Hub {
		return fmt.Errorf("%s is a hub, and hubs do not join", member.Name)
	}
	for _, c := range []*Cluster{c, member} {
		if !c.Ready() {
			return fmt.Errorf("%s is not completely started; `ktsn-cluster --name %[1]s down` removes what there is", c.Name)
		}
	}
	if err := c.Connect(ctx, member); err != nil {
		return err
	}
	register := c.registerPull
	if options.Push {
		register = c.registerPush
	}
	if err := register(ctx, member, options); err != nil {
		return fmt.Errorf("join cluster %s: %w", member.Name, err)
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	return kube.Wait(ctx, kube.MemberReady(client, options.As))
}

func (c *Cluster) registerPush(ctx context.Context, member *Cluster, options JoinOptions) error {
	return c.karmadactl(ctx, member, "join "+options.As+` --kubeconfig="$hub" --cluster-kubeconfig="$member"`)
}

// registerPull has karmadactl install an agent in the member.
func (c *Cluster) registerPull(ctx context.Context, member *Cluster, options JoinOptions) error {
	built, err := options.Builder.BuildHub(ctx)
	if err != nil {
		return err
	}
	for _, archive := range built.Images {
		if err := member.Load(ctx, archive, member.Nodes...); err != nil {
			return err
		}
	}
	registration, err := node.Output(ctx, c.Place(c.ControlPlane().Name), nil, kube.KarmadaPrograms+"/karmadactl", "token", "create",
		"--kubeconfig="+kube.KarmadaKubeconfig, "--ttl=10m", "--print-register-command")
	if err != nil {
		return err
	}
	// karmadactl prints the command for the member's administrator.
	_, arguments, _ := strings.Cut(strings.TrimSpace(registration), "register ")
	return c.karmadactl(ctx, member, "register "+arguments+" --cluster-name="+options.As+
		` --kubeconfig="$member" --karmada-agent-image=`+agentImage+" --karmada-agent-replicas=1")
}

// Unjoin ends a membership, and waits until the cluster could join again. It stays on the WAN.
func (c *Cluster) Unjoin(ctx context.Context, member *Cluster, options JoinOptions) error {
	command := "unregister " + options.As + ` --karmada-config="$hub" --cluster-kubeconfig="$member"`
	if options.Push {
		command = "unjoin " + options.As + ` --kubeconfig="$hub" --cluster-kubeconfig="$member" --cluster-context=` + member.Name
	}
	if err := c.karmadactl(ctx, member, command); err != nil {
		return fmt.Errorf("end the membership of cluster %s: %w", member.Name, err)
	}
	client, err := member.Client()
	if err != nil {
		return err
	}
	return kube.Wait(ctx, kube.KarmadaGone(client))
}

// karmadactl runs karmadactl on the hub. The shell variables hub and member are the paths of both kubeconfigs; the
// member's is removed when the command has ended.
func (c *Cluster) karmadactl(ctx context.Context, member *Cluster, command string) error {
	credentials, err := os.ReadFile(member.Kubeconfig())
	if err != nil {
		return err
	}
	script := `umask 077
member=$(mktemp) hub=` + kube.KarmadaKubeconfig + `
trap 'rm -f "$member"' EXIT
cat >"$member"
` + kube.KarmadaPrograms + "/karmadactl " + command
	output, err := node.Output(ctx, c.Place(c.ControlPlane().Name), bytes.NewReader(credentials), "sh", "-ec", script)
	if err != nil {
		return err
	}
	// karmadactl also exits with 0 if it found something that should not exist.
	if strings.Contains(output, "[ERROR]") {
		return fmt.Errorf("karmadactl: %s", strings.TrimSpace(output))
	}
	return nil
}
