// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Versions are the versions of the specification that the plugin supports.
var Versions = cniversion.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0")

// about is the answer to a person who calls the plugin.
func about() string {
	return version.Line("tsn-cni") + " attaches containers to a network of KuberneTSN. Container runtimes call it; docs/reference/tsn-cni.md says how."
}

// Main runs the command in CNI_COMMAND and returns the exit status. It prints errors as JSON on the standard output, as the
// specification requires.
func Main(stderr io.Writer) int {
	failure := skel.PluginMainFuncsWithError(Functions(), Versions, about())
	if failure == nil {
		return 0
	}
	if err := failure.Print(); err != nil {
		fmt.Fprintf(stderr, "tsn-cni: %v, and it cannot be said on standard output: %v\n", failure, err)
	}
	return 1
}

// Functions returns the plugin's commands. An interrupted command undoes its steps.
func Functions() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add:    command(add),
		Del:    command(func(ctx context.Context, r *request) error { return attachment.Delete(ctx, &r.Spec) }),
		Check:  command(check),
		GC:     command(gc),
		Status: command(func(ctx context.Context, r *request) error { return attachment.Status(ctx, &r.Spec) }),
	}
}

func command(run func(context.Context, *request) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		r, err := newRequest(args)
		if err != nil {
			return err
		}
		return attachment.WithCode(run(ctx, r))
	}
}

// add attaches a container and prints the result.
func add(ctx context.Context, r *request) error {
	if err := r.checkAttachment(); err != nil {
		return err
	}
	result, err := attachment.Add(ctx, &r.Spec)
	if err != nil {
		return err
	}
	if r.Link == nil {
		result = r.chain(result)
	}
	return r.print(result)
}

// check compares what there is with the result of ADD.
func check(ctx context.Context, r *request) error {
	if r.IsOfLinks() {
		return attachment.CheckLinks(ctx, &r.Spec)
	}
	want, err := r.expected()
	if err != nil {
		return err
	}
	return attachment.Check(ctx, &r.Spec, want)
}

// gc removes the attachments that the runtime does not call valid.
func gc(ctx context.Context, r *request) error {
	valid, err := r.validAttachments()
	if err != nil {
		return err
	}
	return attachment.Collect(ctx, &r.Spec, valid)
}

// Detach does what a runtime's DEL would, for runtimes that are not going to call it. config is the network's configuration,
// and pluginDir has the IPAM plugin.
func Detach(key *overlay.Attachment, config []byte, pluginDir string) error {
	return Functions().Del(&skel.CmdArgs{
		ContainerID: key.ContainerID, IfName: key.Interface, Path: pluginDir, StdinData: config,
		Args: "IgnoreUnknown=1;K8S_POD_UID=" + key.Identity,
	})
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
