// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the objects that a user of KuberneTSN writes, TSNNetwork and TSNService, those by which operator and agents
// work together, TSNNode, TSNPeers and TSNLink, the one by which a cluster tells a hub where pods run, TSNWorkload, and the names of
// annotations and labels.
//
// `make generate` generates the files of the CustomResourceDefinitions, deep copies, and the reference in docs/ from this package; a test
// compares them.
//
// +kubebuilder:object:generate=true
// +groupName=kubernetsn.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the objects in this package.
var GroupVersion = schema.GroupVersion{Group: "kubernetsn.io", Version: "v1alpha1"}

// AddToScheme makes the objects known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &TSNNetwork{}, &TSNNetworkList{}, &TSNNode{}, &TSNNodeList{}, &TSNPeers{}, &TSNPeersList{},
		&TSNWorkload{}, &TSNWorkloadList{}, &TSNService{}, &TSNServiceList{}, &TSNLink{}, &TSNLinkList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
