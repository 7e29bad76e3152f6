// SPDX-License-Identifier: Apache-2.0

package linkwait

import "net/netip"

// ktsn-agent writes the state of a pod's links to files in a folder that the pod's containers have mounted:
//
//	/run/ktsn/links/IFNAME           the link was up once; a Link in JSON
//	/run/ktsn/links/IFNAME.waiting   it was not up yet; a message that says what is missing
const (
	// Folder is the name of the folder of these files in the pod's folder.
	Folder = "links"
	// PodFolder is the path of the folder in containers.
	PodFolder = "/run/ktsn/" + Folder
	// Waiting is the suffix of the file that says what is missing.
	Waiting = ".waiting"
)

// Link is the content of a link's file.
type Link struct {
	Interface string `json:"interface"`
	Service   string `json:"service"`
	// Addresses are the pod's addresses with their prefix lengths.
	Addresses []string `json:"addresses"`
	Peer      Peer     `json:"peer"`
	// MTU is the interface's MTU in bytes.
	MTU int `json:"mtu"`
}

// Peer is the other end of a link.
type Peer struct {
	Addresses []netip.Addr `json:"addresses"`
	Cluster   string       `json:"cluster,omitempty"`
	Namespace string       `json:"namespace"`
	Pod       string       `json:"pod"`
}
