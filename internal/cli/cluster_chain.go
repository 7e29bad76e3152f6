// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/node/hops"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// chainOptions select the pod whose links are followed.
type chainOptions struct {
	clusterFlags
	control, pod, interfaceName, to, format string
}

// chainStep is one link of a chain.
type chainStep struct {
	Link     string           `json:"link"`
	Client   v1alpha1.LinkEnd `json:"client"`
	Endpoint v1alpha1.LinkEnd `json:"endpoint"`
	VNI      int32            `json:"vni"`
	Up       bool             `json:"up"`
	// Timed tells that messages keep their transmit times on this link.
	Timed bool `json:"timed"`
	// Reason says why it is not up.
	Reason string `json:"reason,omitempty"`
}

// chain is the path of a pod's packets over links.
type chain struct {
	Service string      `json:"service"`
	Steps   []chainStep `json:"steps"`
	// Hops are the hops that answered packets of the client; Fault is why none was sent.
	Hops  []hops.Hop `json:"hops"`
	Fault string     `json:"fault,omitempty"`
}

// traceChain prints the chains of a pod, or with an address the hops to it from a pod of this node.
func traceChain(ctx context.Context, o *chainOptions, out io.Writer) error {
	if o.pod == "" {
		return errors.New("--pod is missing; give the pod whose packets to follow")
	}
	if o.to != "" {
		return o.ask(ctx, out)
	}
	c, err := o.open()
	if err != nil {
		return err
	}
	chains, err := readChains(ctx, c, o.pod, o.interfaceName)
	if err != nil {
		return err
	}
	for i := range chains {
		chains[i].trace(ctx, c)
	}
	return show(out, o.format, chains, printChains)
}

// ask prints the hops from a pod of this node.
func (o *chainOptions) ask(ctx context.Context, out io.Writer) error {
	to, err := netip.ParseAddr(o.to)
	if err != nil {
		return fmt.Errorf("--to %q: give an IP address", o.to)
	}
	var endpoints []control.AttachedEndpoint
	var identity string
	err = withClient(ctx, o.control, func(ctx context.Context, client *control.Client) error {
		pods, err := client.Pods(ctx)
		if err != nil {
			return err
		}
		if identity, err = identityOf(pods, o.pod); err != nil {
			return fmt.Errorf("--pod %w", err)
		}
		endpoints, err = client.Endpoints(ctx)
		return err
	})
	if err != nil {
		return err
	}
	at := slices.IndexFunc(endpoints, func(endpoint control.AttachedEndpoint) bool {
		return endpoint.Identity == identity && endpoint.Interface == o.interfaceName
	})
	if at < 0 {
		return fmt.Errorf("--interface %q: pod %s has no interface of that name at ktsnd; `ktsn status` lists them", o.interfaceName, o.pod)
	}
	path, err := hops.Find(ctx, endpoints[at].Netns, o.interfaceName, to)
	switch {
	case err != nil:
		return err
	case o.format == "json":
		return printJSON(out, path)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printHops(table, path, nil)
	return table.Flush()
}

// readChains finds the links of which a pod is the client at the beginning, and those that follow.
func readChains(ctx context.Context, c *clusterreader.Cluster, pod, interfaceName string) ([]chain, error) {
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok {
		namespace, name = "default", pod
	}
	links, err := clusterreader.List[v1alpha1.TSNLink](ctx, c, clusterreader.TSNLinks, "", "", "")
	if err != nil {
		return nil, fmt.Errorf("list the cluster's TSNLinks: %w", err)
	}
	slices.SortFunc(links, func(a, b v1alpha1.TSNLink) int { return strings.Compare(a.Name, b.Name) })
	var chains []chain
	for i := range links {
		client := &links[i].Spec.Client
		if client.Namespace == namespace && client.Pod == name && links[i].Spec.Hop == 0 && (interfaceName == "" || client.Interface == interfaceName) {
			chains = append(chains, chain{Service: links[i].Spec.Service, Steps: follow(links, &links[i])})
		}
	}
	if len(chains) == 0 {
		return nil, fmt.Errorf("pod %s/%s is the client of no link; `kubectl get tsnlinks -A` lists them", namespace, name)
	}
	return chains, nil
}

// follow returns the steps from the first link on. A pod in the middle has one link onwards.
func follow(links []v1alpha1.TSNLink, first *v1alpha1.TSNLink) []chainStep {
	var steps []chainStep
	for at := first; at != nil && len(steps) < hops.Most; {
		steps = append(steps, stepOf(at))
		next := slices.IndexFunc(links, func(link v1alpha1.TSNLink) bool {
			return link.Spec.Service == at.Spec.Service && link.Spec.Hop == at.Spec.Hop+1 && link.Spec.Client.UID == at.Spec.Endpoint.UID
		})
		if next < 0 {
			break
		}
		at = &links[next]
	}
	return steps
}

func stepOf(link *v1alpha1.TSNLink) chainStep {
	step := chainStep{
		Link: link.Namespace + "/" + link.Name, Client: link.Spec.Client, Endpoint: link.Spec.Endpoint, VNI: link.Spec.VNI, Timed: link.Spec.Hop == 0,
		Reason: "no agent has reported whether it is up",
	}
	if condition := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionUp); condition != nil {
		step.Up, step.Reason = condition.Status == "True", condition.Message
	}
	return step
}

// trace sends packets from the client, on its node, to the last endpoint.
func (ch *chain) trace(ctx context.Context, c *clusterreader.Cluster) {
	first, last := &ch.Steps[0].Client, &ch.Steps[len(ch.Steps)-1].Endpoint
	to, err := netip.ParsePrefix(last.Addresses[0])
	if err != nil {
		ch.Fault = fmt.Sprintf("the last endpoint has the address %q", last.Addresses[0])
		return
	}
	var answer bytes.Buffer
	err = c.Ktsn(ctx, first.Node, &answer, "trace", "--chain", "--pod", first.UID, "--interface", first.Interface, "--to", to.Addr().String(), "--output", "json")
	if err == nil {
		err = json.Unmarshal(answer.Bytes(), &ch.Hops)
	}
	if err != nil {
		ch.Fault = err.Error()
	}
}

func printChains(out io.Writer, chains []chain) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range chains {
		ch := &chains[i]
		fmt.Fprintf(table, "service %s\n", ch.Service)
		for at := range ch.Steps {
			step := &ch.Steps[at]
			state, times := "up", "forwarded at once"
			if !step.Up {
				state = "not up: " + step.Reason
			}
			if step.Timed {
				times = "timed"
			}
			fmt.Fprintf(table, "  %s\t%s\tto\t%s\tVNI %d\t%s\t%s\n", step.Link, endName(&step.Client), endName(&step.Endpoint), step.VNI, times, state)
		}
		if ch.Fault != "" {
			fmt.Fprintf(table, "  no packet was sent: %s\n", ch.Fault)
			continue
		}
		printHops(table, ch.Hops, ch.Steps)
	}
	return table.Flush()
}

func endName(end *v1alpha1.LinkEnd) string {
	where := end.Node
	if end.Cluster != "" {
		where = end.Cluster + "/" + where
	}
	return fmt.Sprintf("%s/%s %s on %s", end.Namespace, end.Pod, end.Interface, where)
}

// printHops prints the hops that answered, with their pods if a step has the address.
func printHops(table io.Writer, path []hops.Hop, steps []chainStep) {
	for _, hop := range path {
		switch {
		case !hop.Address.IsValid():
			fmt.Fprintf(table, "  hop %d\tno answer\n", hop.TTL)
		default:
			fmt.Fprintf(table, "  hop %d\t%s\t%v\t%s\n", hop.TTL, hop.Address, hop.After, podAt(steps, hop.Address))
		}
	}
	if len(path) > 0 && !path[len(path)-1].Arrived {
		fmt.Fprintln(table, "  packets do not arrive at the last endpoint")
	}
}

// podAt returns the pod of the chain with an address.
func podAt(steps []chainStep, address netip.Addr) string {
	for i := range steps {
		for _, end := range []*v1alpha1.LinkEnd{&steps[i].Endpoint, &steps[i].Client} {
			for _, text := range end.Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr() == address {
					return endName(end)
				}
			}
		}
	}
	return ""
}
