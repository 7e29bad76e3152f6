// SPDX-License-Identifier: Apache-2.0

package cniruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
)

// inside runs plugins in the network namespace of a node. It is safe for concurrent use.
type inside struct {
	invoke.RawExec
	version.PluginDecoder
	netns string
	// environment is added to the variables that libcni passes.
	environment []string
}

// ExecPlugin starts the plugin on a thread that has entered the namespace, which the plugin inherits.
func (i *inside) ExecPlugin(ctx context.Context, path string, stdin []byte, environment []string) (stdout []byte, err error) {
	errEnter := ns.WithNetNSPath(i.netns, func(ns.NetNS) error {
		stdout, err = i.RawExec.ExecPlugin(ctx, path, stdin, append(environment, i.environment...))
		return nil
	})
	if errEnter != nil {
		return nil, fmt.Errorf("enter the node's network namespace: %w", errEnter)
	}
	return stdout, err
}

// New returns the runtime of a node: libcni with plugins from the given folders and a cache folder. The standard error
// of plugins goes to stderr. environment is added to their environment.
func New(netns string, pluginDirs []string, cacheDir string, stderr io.Writer, environment ...string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(pluginDirs, cacheDir,
		&inside{RawExec: invoke.RawExec{Stderr: stderr}, netns: netns, environment: environment})
}

// List returns a network configuration list of the plugins' configurations.
func List(cniVersion, name string, plugins ...map[string]any) (*libcni.NetworkConfigList, error) {
	text, err := json.Marshal(map[string]any{"cniVersion": cniVersion, "name": name, "plugins": plugins})
	if err != nil {
		return nil, fmt.Errorf("write the network's configuration: %w", err)
	}
	list, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		return nil, fmt.Errorf("read the network's configuration: %w", err)
	}
	return list, nil
}
