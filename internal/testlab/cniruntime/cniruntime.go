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

// inside runs plugins in the network namespace of a node. Calls may be concurrent.
type inside struct {
	invoke.RawExec
	version.PluginDecoder
	netns string
	// environment is added to what libcni passes.
	environment []string
}

// ExecPlugin starts the plugin on a thread that has entered the namespace; the program inherits it.
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

// New returns the runtime of a node: libcni, with plugins from the given folders and its cache in another. What
// plugins say on their standard error goes to stderr. The strings of environment are added to theirs.
func New(netns string, pluginDirs []string, cacheDir string, stderr io.Writer, environment ...string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(pluginDirs, cacheDir,
		&inside{RawExec: invoke.RawExec{Stderr: stderr}, netns: netns, environment: environment})
}

// List makes a network configuration list of the configurations of plugins.
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
