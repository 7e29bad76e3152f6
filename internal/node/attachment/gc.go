// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// gc removes what there is of the network and is not among the attachments that the runtime calls valid.
func gc(ctx context.Context, r *request) error {
	valid, err := r.validAttachments()
	if err != nil {
		return err
	}
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	ctx = context.WithoutCancel(ctx)
	if r.ofLinks() {
		return r.collectSandboxes(ctx, node, records, valid)
	}
	known, err := knownAttachments(r.Standard.Name, node, records)
	if err != nil {
		return err
	}
	errCards := r.giveBackStrays(valid)
	all := errCards
	for key, found := range known {
		if !valid[key] {
			all = errors.Join(all, r.collect(ctx, node, records, &found))
		}
	}
	all = errors.Join(all, r.forgetStrays(ctx, node, records), node.Sweep(ctx, &r.Overlay), sweepRings())
	if errCards != nil {
		return all // the plugin would free the addresses of their machines
	}
	if err := r.ipam(ctx, "GC"); err != nil && !unsupported(err) {
		all = errors.Join(all, err)
	}
	return all
}

// validAttachments reads the runtime's list. Its absence must not be taken for an empty one.
func (r *request) validAttachments() (map[types.GCAttachment]bool, error) {
	var lists struct {
		Valid *[]types.GCAttachment `json:"cni.dev/valid-attachments"`
		// libcni passes the list under a second name, which the specification once had by mistake.
		Old *[]types.GCAttachment `json:"cni.dev/attachments"`
	}
	if err := json.Unmarshal(r.stdin, &lists); err != nil {
		return nil, invalid("cni.dev/valid-attachments: %v", err)
	}
	list := lists.Valid
	if list == nil {
		list = lists.Old
	}
	if list == nil {
		return nil, invalid("cni.dev/valid-attachments: missing; GC removes all that is not in this list")
	}
	valid := map[types.GCAttachment]bool{}
	for _, attachment := range *list {
		valid[attachment] = true
	}
	return valid, nil
}

// knownAttachments are those of a network in the records and in the kernel.
func knownAttachments(network string, node *overlay.Node, records records) (map[types.GCAttachment]overlay.Found, error) {
	recorded, err := records.list(network)
	if err != nil {
		return nil, err
	}
	found, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	known := map[types.GCAttachment]overlay.Found{}
	for _, attachment := range recorded {
		known[types.GCAttachment{ContainerID: attachment.ContainerID, IfName: attachment.Interface}] = overlay.Found{Attachment: attachment}
	}
	for _, port := range found {
		if port.Network == network {
			known[types.GCAttachment{ContainerID: port.ContainerID, IfName: port.Interface}] = port
		}
	}
	return known, nil
}

// collect does what DEL would.
func (r *request) collect(ctx context.Context, node *overlay.Node, records records, found *overlay.Found) error {
	stale := *r
	stale.Attachment = found.Attachment
	if made := records.read(&found.Attachment); made != nil {
		stale.Attachment, stale.netns, stale.args = made.Attachment, made.Netns, made.Args
	} else if noted := (record{}); noted.takeNote(found.Note) == nil {
		stale.Device, stale.netns = noted.Device, netnsPath(found.NetnsID)
	}
	if stale.Identity == "" {
		stale.Identity = stale.ContainerID
	}
	return stale.detach(ctx, node, records)
}

// forgetStrays makes ktsnd forget endpoints of the network whose pod is gone and that nobody remembers: those of
// an ADD whose record was lost.
func (r *request) forgetStrays(ctx context.Context, node *overlay.Node, records records) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if ended(err) || (err == nil && daemon == nil) {
		return nil
	}
	if err != nil {
		return err
	}
	defer daemon.close()
	endpoints, err := daemon.Endpoints(ctx)
	if err != nil {
		return err
	}
	known, err := r.knownIdentities(node, records)
	if err != nil {
		return err
	}
	var all error
	for _, endpoint := range endpoints {
		_, errStat := os.Stat(endpoint.Netns)
		if endpoint.VNI == r.Overlay.VNI && errors.Is(errStat, fs.ErrNotExist) && !known[[2]string{endpoint.Identity, endpoint.Interface}] {
			all = errors.Join(all, daemon.EndpointDel(ctx, endpoint.Identity, endpoint.Interface))
		}
	}
	return all
}

// knownIdentities are the pairs of identity and interface of all networks.
func (r *request) knownIdentities(node *overlay.Node, records records) (map[[2]string]bool, error) {
	known := map[[2]string]bool{}
	made, err := records.all()
	if err != nil {
		return nil, err
	}
	for _, attachment := range made {
		known[[2]string{attachment.Identity, attachment.Interface}] = true
	}
	found, err := node.Attachments()
	if err != nil {
		return nil, err
	}
	for _, port := range found {
		known[[2]string{port.Identity, port.Interface}] = true
	}
	return known, nil
}
