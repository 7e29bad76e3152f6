// SPDX-License-Identifier: Apache-2.0

// Package ipamclaim has the resource IPAMClaim of the Network Plumbing Working Group (k8s.cni.cncf.io/v1alpha1), as far as the operator and its
// webhook use it. A cluster may lack its CustomResourceDefinition.
package ipamclaim

import (
	"errors"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is the name of the CustomResourceDefinition.
const Resource = "ipamclaims.k8s.cni.cncf.io"

// Version is the group and version of the resource.
var Version = schema.GroupVersion{Group: "k8s.cni.cncf.io", Version: "v1alpha1"}

// Kind is the kind of a claim.
var Kind = Version.WithKind("IPAMClaim")

// IPAMClaim holds addresses of a network, which survive the pods that refer to it.
type IPAMClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec has the network of a claim, and the addresses that it requests.
type Spec struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// IPRequests are addresses with a prefix length. The resource allows two of one family; the operator rejects them.
	IPRequests []string `json:"ipRequests,omitempty"`
}

// Status has the addresses. The CustomResourceDefinition requires IPs and OwnerPod.
type Status struct {
	// IPs are addresses with a prefix length, at most one of each family.
	IPs []string `json:"ips"`
	// OwnerPod is the name of the pod that has the addresses, "" for none.
	OwnerPod   string             `json:"ownerPod"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// List is a list of claims.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IPAMClaim `json:"items"`
}

// AddToScheme registers the resource.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(Kind, &IPAMClaim{})
	scheme.AddKnownTypeWithName(Version.WithKind("IPAMClaimList"), &List{})
	metav1.AddToGroupVersion(scheme, Version)
	return nil
}

// IsMissing reports whether an error is that of a cluster without the CustomResourceDefinition. A claim that is not found is another error.
func IsMissing(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	if details == nil || details.Name == "" {
		return true // the path is unknown, not the object
	}
	// The answer for an unknown path is no Status; the client adds the name that it requested.
	return slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// Addresses returns the addresses of ips or ipRequests. It skips text that is none.
func Addresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix.Addr())
		}
	}
	return all
}

// Has reports whether a claim holds an address of a network. A claim that failed holds none: another one can have the same address.
func (c *IPAMClaim) Has(network string, address netip.Addr) bool {
	return c.Spec.Network == network && !c.Failed() && slices.Contains(Addresses(c.Status.IPs), address)
}

// Failed reports whether the operator found that a pod cannot have the addresses of a claim.
func (c *IPAMClaim) Failed() bool {
	return meta.IsStatusConditionFalse(c.Status.Conditions, ConditionAllocated)
}

// DeepCopyObject implements runtime.Object.
func (c *IPAMClaim) DeepCopyObject() runtime.Object { return c.deepCopy() }

func (c *IPAMClaim) deepCopy() *IPAMClaim {
	copied := *c
	c.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.IPRequests = slices.Clone(c.Spec.IPRequests)
	copied.Status = c.Status.Clone()
	return &copied
}

// Clone returns a copy that shares nothing.
func (s *Status) Clone() Status {
	copied := Status{IPs: slices.Clone(s.IPs), OwnerPod: s.OwnerPod}
	for i := range s.Conditions {
		copied.Conditions = append(copied.Conditions, *s.Conditions[i].DeepCopy())
	}
	return copied
}

// DeepCopyObject implements runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&copied.ListMeta)
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].deepCopy())
	}
	return copied
}
