// SPDX-License-Identifier: Apache-2.0

// Package linkfile defines the files by which ktsn-agent reports links to the containers of a pod, in a mounted folder.
//
//	/run/ktsn/links/IFNAME           the link was up: a Link in JSON
//	/run/ktsn/links/IFNAME.waiting   the link was not up yet: a message with the reason
package linkfile

import "net/netip"

const (
	// Folder is the name of the folder in the pod's folder.
	Folder = "links"
	// PodFolder is its path in containers.
	PodFolder = "/run/ktsn/" + Folder
	// Waiting is the suffix of the file of a link that was not up yet.
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

// Peer is the other end.
type Peer struct {
	Addresses []netip.Addr `json:"addresses"`
	Cluster   string       `json:"cluster,omitempty"`
	Namespace string       `json:"namespace"`
	Pod       string       `json:"pod"`
}
