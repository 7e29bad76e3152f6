// SPDX-License-Identifier: Apache-2.0

package federation

import "time"

// Modes of a cluster's membership.
const (
	// Pull : an agent in the cluster reads from the hub.
	Pull = "Pull"
	// Push : the hub has credentials of the cluster and reaches it.
	Push = "Push"
)

// JoinRequest requests that a cluster becomes a member.
type JoinRequest struct {
	Name        string            `json:"name" maxLength:"48" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Name of the cluster at the hub."`
	Mode        string            `json:"mode,omitempty" enum:"Pull,Push" default:"Pull" doc:"Pull: an agent in the cluster asks the hub. Push: the hub reaches the cluster and keeps its credentials."`
	Fingerprint string            `json:"fingerprint,omitempty" pattern:"^sha256:[0-9a-f]{64}$" patternDescription:"sha256: and 64 hexadecimal digits" doc:"SHA-256 of the certificate of the cluster's authority. It is kept, and cannot be changed while the cluster is a member."`
	ID          string            `json:"id,omitempty" maxLength:"253" pattern:"^[0-9A-Za-z]([-0-9A-Za-z]*[0-9A-Za-z])?$" patternDescription:"letters, digits and hyphens" doc:"UID of the cluster's namespace kube-system, by which its agent knows that it is meant. Pull needs it."`
	Labels      map[string]string `json:"labels,omitempty" doc:"Labels of the cluster, by which networks choose clusters."`
	Region      string            `json:"region,omitempty" maxLength:"63" doc:"Region of the cluster."`
	Endpoint    string            `json:"endpoint,omitempty" maxLength:"2048" doc:"Address of the cluster's API server. Push needs it."`
	CA          string            `json:"ca,omitempty" maxLength:"65536" doc:"Certificate of the cluster's authority, in PEM. Push needs it."`
	Token       string            `json:"token,omitempty" maxLength:"65536" doc:"Token of the hub in the cluster. Push needs it."`
	Proxy       bool              `json:"proxy,omitempty" doc:"With Push: users of the hub may ask the cluster by Karmada's proxy. The token needs the right to impersonate users there, and to write ClusterRoles."`
}

// Joined is the answer to a JoinRequest.
type Joined struct {
	Cluster   Cluster    `json:"cluster"`
	Bootstrap *Bootstrap `json:"bootstrap,omitempty" doc:"With Pull: by which the cluster's agent gets a certificate. It is told once."`
}

// Bootstrap is how the agent of a cluster gets its certificate at the hub.
type Bootstrap struct {
	Server    string    `json:"server" doc:"Address of the hub's API server."`
	CA        string    `json:"ca" doc:"Certificate of the hub's authority, in PEM."`
	Token     string    `json:"token" doc:"Bearer token that can do nothing but ask for a certificate."`
	ExpiresAt time.Time `json:"expiresAt" doc:"When the token ends."`
}

// CertificateRequest requests the certificate of a cluster's agent.
type CertificateRequest struct {
	Request string `json:"request" maxLength:"16384" doc:"Certificate signing request in PEM, of CN system:karmada:agent:NAME and O system:karmada:agents."`
}

// Certificate is the answer to a CertificateRequest.
type Certificate struct {
	Server      string `json:"server" doc:"Address of the hub's API server."`
	CA          string `json:"ca" doc:"Certificate of the hub's authority, in PEM."`
	Certificate string `json:"certificate" doc:"Certificate of the agent, in PEM."`
}

// AgentUser and AgentGroup identify an agent at the hub: the prefix of its certificate's CN, followed by the cluster's name, and its O.
const (
	AgentUser  = "system:karmada:agent:"
	AgentGroup = "system:karmada:agents"
)

// Audience is the audience of users' tokens for the federator. The hub's API server does not accept such a token.
const Audience = "ktsn-federator"

// States of a cluster's certificate authority.
const (
	// PinMatches : the CA that the hub knows of the cluster is the given one.
	PinMatches = "Matches"
	// PinDiffers : the CA is another one.
	PinDiffers = "Differs"
	// PinUnknown : no CA was given, or the hub knows none.
	PinUnknown = "Unknown"
)

// Cluster is a member cluster.
type Cluster struct {
	Name              string            `json:"name"`
	Mode              string            `json:"mode" enum:"Pull,Push"`
	Ready             string            `json:"ready" enum:"True,False,Unknown" doc:"Whether the hub hears of the cluster."`
	Message           string            `json:"message,omitempty" doc:"Why it is not ready."`
	KubernetesVersion string            `json:"kubernetesVersion,omitempty"`
	Nodes             int32             `json:"nodes"`
	NodesReady        int32             `json:"nodesReady"`
	Region            string            `json:"region,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Fingerprint       string            `json:"fingerprint,omitempty" doc:"That of the cluster's authority, as it was given at its joining."`
	Pin               string            `json:"pin" enum:"Matches,Differs,Unknown" doc:"Whether what the hub knows of the cluster is of that authority."`
	Leaving           bool              `json:"leaving,omitempty" doc:"The cluster is being removed."`
}

// Clusters is a list of clusters.
type Clusters struct {
	Items []Cluster `json:"items"`
}

// Unjoined is the answer to a request to remove a cluster.
type Unjoined struct {
	Cluster string   `json:"cluster"`
	Drained []string `json:"drained" doc:"Workloads that are on other clusters too and were taken from this one, as NAMESPACE/NAME."`
	Left    []string `json:"left" doc:"Workloads that stay on this cluster, with force or because it was being removed already, as NAMESPACE/NAME."`
	Message string   `json:"message"`
}
