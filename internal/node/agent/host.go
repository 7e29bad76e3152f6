// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/repeat"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
)

// hostFindings are the last findings about the settings of the node.
type hostFindings struct {
	mu       sync.Mutex
	findings []hostcheck.Finding
	known    bool
	failures int
	failure  error
}

// maxHostFailures is after how many failed checks in succession the settings of the node are unknown.
const maxHostFailures = 2

// get returns the findings, and why they are not all; known is false while that is not known.
func (h *hostFindings) get() (findings []hostcheck.Finding, known bool, failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.findings, h.known, h.failure
}

// set reports which findings that stop traffic are new, and whether anything has changed. err is why the check is not complete.
func (h *hostFindings) set(findings []hostcheck.Finding, err error) (breaking []hostcheck.Finding, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, finding := range findings {
		before := slices.ContainsFunc(h.findings, func(f hostcheck.Finding) bool { return f.Reason == finding.Reason })
		if finding.Breaks && !before {
			breaking = append(breaking, finding)
		}
	}
	failureBefore, knownBefore := h.failure, h.known
	if err == nil {
		h.failures, h.failure = 0, nil
	} else if h.failures++; h.failures >= maxHostFailures {
		h.failure = err
	}
	h.known = h.known || err == nil || h.failure != nil
	changed = h.known != knownBefore || !reflect.DeepEqual(h.findings, findings) || fmt.Sprint(h.failure) != fmt.Sprint(failureBefore)
	h.findings = findings
	return breaking, changed
}

// newHost adds the part that checks the settings of the node.
func newHost(c *core) (*hostFindings, error) {
	host := &hostFindings{}
	events := c.manager.GetEventRecorderFor("ktsn-agent")
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: c.Node, UID: types.UID(c.Node)}
	watcher := &hostcheck.Watcher{
		Node:     hostcheck.Node{Files: os.DirFS("/"), PluginDir: filepath.Join(c.Host, c.PluginDir)},
		Networks: c.hostNetworks,
	}
	if c.Proc != "" {
		watcher.Node.Host = os.DirFS(filepath.Join(c.Proc, "1", "root"))
	}
	check := func() {
		findings, err := watcher.Check()
		if err != nil {
			c.log.Warn("settings of the node cannot be checked", "error", err)
		}
		breaking, changed := host.set(findings, err)
		for _, finding := range breaking {
			c.log.Warn("a setting of the node stops traffic", "reason", finding.Reason, "cause", finding.Text, "remedy", finding.Remedy)
			events.Event(node, corev1.EventTypeWarning, finding.Reason, finding.Text+"; "+finding.Remedy)
		}
		if changed {
			c.queue.wake(concernSchedule)
		}
	}
	return host, c.manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			check()
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(repeat.Every):
			}
		}
	}))
}

// addedMounts returns where folders of the managers of network devices are mounted, by their paths on the node.
func addedMounts(etc string) map[string]string {
	if etc == "" {
		return nil
	}
	mounts := map[string]string{}
	for _, manager := range hostcheck.Managers {
		folder := filepath.Dir(manager.Path)
		mounts[folder] = filepath.Join(etc, strings.TrimPrefix(folder, "/etc"))
	}
	return mounts
}

// installUnmanaged installs the settings by which managers of network devices leave those of networks alone. Networks also work without
// them, so that failures are only logged.
func installUnmanaged(host *install.Node, log *slog.Logger) {
	for _, manager := range hostcheck.Managers {
		changed, err := host.Add(manager.Path, []byte(manager.Content), 0o644)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the node does not have this manager
		case err != nil:
			log.Warn("devices of networks stay managed", "manager", manager.Name, "error", err)
		case changed:
			log.Info("installed a setting that leaves devices of networks alone", "manager", manager.Name, "path", manager.Path, "read at", manager.Reload)
		}
	}
}

func (c *core) hostNetworks() ([]hostcheck.Network, error) {
	node, err := attachment.OpenNode(c.StateDir, daemon.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	return hostcheck.Networks(node, c.StateDir)
}
