// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// AddressOwners are the pods that have static addresses of a network. ktsn-agent writes them into the state directory, as static/NETWORK.json; ADD
// reads them.
type AddressOwners struct {
	// Node is the name of this node.
	Node string `json:"node"`
	// Addresses are those of all nodes.
	Addresses []AddressOwner `json:"addresses"`
}

// AddressOwner is a pod with a static address.
type AddressOwner struct {
	Address netip.Addr `json:"address"`
	Node    string     `json:"node"`
	// Pod is its namespace and name, such as line/plc-0.
	Pod string `json:"pod"`
	// UID is that of the pod; "": any pod of the name has the address.
	UID string `json:"uid,omitempty"`
}

func ownersPath(stateDir, network string) string {
	return filepath.Join(stateDir, "static", network+".json")
}

// WriteAddressOwners writes the file of a network, unless it has this content; nil removes it.
func WriteAddressOwners(stateDir, network string, owners *AddressOwners) error {
	path := ownersPath(stateDir, network)
	if owners == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the static addresses of network %s: %w", network, err)
		}
		return nil
	}
	text, err := json.Marshal(owners)
	if err == nil {
		if existing, errRead := os.ReadFile(path); errRead == nil && bytes.Equal(existing, text) {
			return nil
		}
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), overlay.WriteFile(path, text))
	}
	if err != nil {
		return fmt.Errorf("write the static addresses of network %s: %w", network, err)
	}
	return nil
}

// ReadAddressOwners reads the file of a network. Without a file nobody has an address.
func ReadAddressOwners(stateDir, network string) (owners AddressOwners, err error) {
	text, err := os.ReadFile(ownersPath(stateDir, network))
	if errors.Is(err, fs.ErrNotExist) {
		return owners, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &owners)
	}
	if err != nil {
		return owners, fmt.Errorf("read the static addresses of network %s: %w", network, err)
	}
	return owners, nil
}

// PodName returns the pod's Kubernetes namespace and name in CNI_ARGS, such as line/plc-0.
func PodName(args string) string {
	name := ""
	for pair := range strings.SplitSeq(args, ";") {
		if value, ok := strings.CutPrefix(pair, "K8S_POD_NAME="); ok {
			name = value
		}
	}
	return PodNamespace(args) + "/" + name
}
