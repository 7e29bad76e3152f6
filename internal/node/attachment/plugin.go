// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/version"
)

// Versions are those of the specification that the plugin speaks.
var Versions = cniversion.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0")

// about is the answer to a person who calls the plugin.
func about() string {
	return version.Line("tsn-cni") + " attaches containers to a network of KuberneTSN. Container runtimes call it; docs/tsn-cni.md says how."
}

// Main does what CNI_COMMAND says and returns the exit status. An error is JSON on the standard output, as the
// specification wants it.
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

// Functions are the plugin's commands. An interrupted command undoes what it did.
func Functions() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add:    command(add),
		Del:    command(del),
		Check:  command(check),
		GC:     command(gc),
		Status: command(status),
	}
}

func command(do func(context.Context, *request) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		r, err := newRequest(args)
		if err != nil {
			return err
		}
		return finish(do(ctx, r))
	}
}

// open opens what every command works with.
func (r *request) open() (*overlay.Node, records, error) {
	node, err := OpenNode(r.StateDir, r.LockTimeout)
	return node, records{r.StateDir}, err
}

// oneLine joins the lines of an error that has several causes.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
