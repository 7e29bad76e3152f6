// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Names of configurations, which no network may have.
const (
	// SandboxNetwork is the one by which runtimes have the sandboxes of pods with links remembered.
	SandboxNetwork = "kubernetsn-links"
	// LinkNetwork is the one by which links are plugged.
	LinkNetwork = "kubernetsn-link"
)

// addSandbox remembers a sandbox. The result has no interface of this plugin.
func addSandbox(r *request) error {
	netns, err := r.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	records := records{r.StateDir}
	if err := records.write(r.record()); err != nil {
		return err
	}
	result := r.Previous
	if result == nil {
		result = &current.Result{CNIVersion: current.ImplementedSpecVersion}
	}
	return r.print(result)
}

// removeSandbox unplugs all links of the sandbox, whoever plugged them, and forgets it.
func (r *request) removeSandbox(ctx context.Context, node *overlay.Node, records records) error {
	return forgetSandbox(ctx, node, records, &r.Attachment)
}

func forgetSandbox(ctx context.Context, node *overlay.Node, records records, sandbox *overlay.Attachment) error {
	links, err := records.linksOf(sandbox.ContainerID)
	if err != nil {
		return err
	}
	var all error
	for i, err := range unplugLinks(ctx, node, records, links) {
		if err != nil {
			all = errors.Join(all, fmt.Errorf("link %s: %w", links[i].Interface, err))
		}
	}
	if all != nil {
		return all
	}
	return records.remove(sandbox)
}

// checkLinks names what is not as ADD made it, of the sandbox's links.
func checkLinks(ctx context.Context, r *request) error {
	netns, err := r.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	if r.Links && records.read(&r.Attachment) == nil {
		return coded(CodeDiffers, fmt.Errorf("nothing is known of the sandbox of container %s; make the pod anew", r.ContainerID))
	}
	links, err := records.linksOf(r.ContainerID)
	if err != nil {
		return err
	}
	var differs error
	for _, link := range links {
		if !r.Links && link.Interface != r.Interface {
			continue
		}
		if err := link.checkLink(ctx, node); errors.Is(err, errKtsndSilent) {
			return err
		} else if err != nil {
			differs = errors.Join(differs, fmt.Errorf("link %s: %w", link.Interface, err))
		}
	}
	return coded(CodeDiffers, differs)
}

// collectSandboxes forgets the sandboxes that the runtime does not call valid, and unplugs the links of containers that have none.
func (r *request) collectSandboxes(ctx context.Context, node *overlay.Node, records records, valid map[types.GCAttachment]bool) error {
	containers := map[string]bool{}
	for attachment := range valid {
		containers[attachment.ContainerID] = true
	}
	known, err := knownAttachments(r.Standard.Name, node, records)
	if err != nil {
		return err
	}
	var all error
	for key, found := range known {
		if !valid[key] {
			all = errors.Join(all, forgetSandbox(ctx, node, records, &found.Attachment))
		}
	}
	links, err := knownAttachments(LinkNetwork, node, records)
	if err != nil {
		return errors.Join(all, err)
	}
	var left []*record
	for key, found := range links {
		if !containers[key.ContainerID] {
			left = append(left, foundLink(records, &found, r.ControlSocket))
		}
	}
	return errors.Join(all, errors.Join(unplugLinks(ctx, node, records, left)...))
}

// foundLink is a link that may have no record.
func foundLink(records records, found *overlay.Found, controlSocket string) *record {
	made := records.read(&found.Attachment)
	if made == nil {
		made = &record{
			Version: recordVersion, Attachment: found.Attachment, VNI: found.VNI, Bridge: found.Bridge, Tunnel: found.Tunnel,
			ControlSocket: controlSocket,
		}
	}
	return made
}

// statusOfLinks tells whether links could be plugged.
func (r *request) statusOfLinks(ctx context.Context) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil {
		return unavailable(false, err)
	}
	daemon.close()
	if err := r.checkStateDir(); err != nil {
		return unavailable(false, err)
	}
	return nil
}
