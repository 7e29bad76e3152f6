// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
)

const (
	aboutHost = "host"
	hostOK    = "nothing stops packets of tunnels or bridged frames"
)

// host reports the findings about the node's host: those that `ktsn node check` finds now, and what else its agent has reported. state may
// be nil.
func (d *Doctor) host(ctx context.Context, node string, state *v1alpha1.TSNNode) {
	findings, err := d.AskHost(ctx, node)
	if err != nil {
		d.unreadable(aboutHost, err)
	}
	d.hostFindings(findings)
	if state != nil {
		// The agent sees more of the node than the pod of ktsnd, in which the command runs.
		for _, finding := range state.Status.HostFindings {
			if !slices.ContainsFunc(findings, func(f hostcheck.Finding) bool { return f.Reason == finding.Reason }) {
				d.report(Note, aboutHost, finding.Remedy, "%s", finding.Message)
			}
		}
	}
	if err == nil && len(findings) == 0 {
		d.ok(aboutHost, hostOK)
	}
}

// CheckHost checks the settings of the node on which the command runs, without a cluster.
func (d *Doctor) CheckHost(ctx context.Context, node string) ([]Finding, error) {
	findings, err := d.AskHost(ctx, node)
	if err != nil {
		return nil, err
	}
	d.report(Note, "cluster", "name a kubeconfig with --kubeconfig or KUBECONFIG to check also the node's networks, clock and ktsnd",
		"no cluster is configured, so that only the settings of this node are checked")
	d.hostFindings(findings)
	if len(findings) == 0 {
		d.ok(aboutHost, hostOK)
	}
	return d.take(), nil
}

func (d *Doctor) hostFindings(findings []hostcheck.Finding) {
	for _, finding := range findings {
		level := Note
		if finding.Breaks {
			level = Bad
		}
		d.report(level, aboutHost, finding.Remedy, "%s", finding.Text)
	}
}

// settings reports the settings of the node's machine. Possible improvements are notes: an untuned machine is not a fault.
func (d *Doctor) settings(ctx context.Context, node string) {
	all, err := d.AskSettings(ctx, node)
	if err != nil {
		d.unreadable("settings of the machine", err)
		return
	}
	for _, setting := range all {
		if setting.Cost == "" {
			d.ok(setting.Name, "%s", setting.Found)
			continue
		}
		d.report(Note, setting.Name, setting.Mend, "%s: %s", setting.Found, setting.Cost)
	}
}
