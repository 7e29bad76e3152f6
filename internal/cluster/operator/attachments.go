// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// attachmentKind is Multus'. A NetworkAttachmentDefinition without a configuration means the one of its name that the
// agent writes on each node.
var attachmentKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// fieldOwner is the operator's in server-side apply.
const fieldOwner = client.FieldOwner("ktsn-operator")

// errMultus says that the cluster knows no attachments.
var errMultus = errors.New("the cluster has no NetworkAttachmentDefinitions; install Multus, by which pods get a second network")

// foreignError says that somebody else's attachments have the network's name.
type foreignError struct{ namespaces []string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("a NetworkAttachmentDefinition of this name that is somebody else's is in the namespaces %v; remove or rename it",
		some(e.namespaces))
}

// selectorError says that nobody can read which namespaces are selected: the API server takes more than there is.
type selectorError struct{ error }

func (e *selectorError) Error() string {
	return fmt.Sprintf("spec.namespaceSelector: %v; correct it, until then no more pods can be on the network", e.error)
}

// attached is what came of a look at a network's attachments.
type attached struct {
	// asked tells what was asked for apart.
	asked string
	at    time.Time
	found []finding
}

// admit has there be attachments where the network may be. Those that there are stay when nobody can read where that is. They are
// not watched, and asked for again when something else is wanted, or after a while.
func (r *Networks) admit(ctx context.Context, network *v1alpha1.TSNNetwork, withPods map[string]int32) ([]finding, error) {
	namespaces, err := allowed(ctx, r.Client, network)
	if err != nil {
		return attachmentFinding(err)
	}
	last, asked := r.attached[network.Name], fmt.Sprint(network.UID, slices.Sorted(maps.Keys(namespaces)), slices.Sorted(maps.Keys(withPods)))
	patience := repeatEvery
	if len(last.found) > 0 {
		patience = retryAfter
	}
	if last.asked == asked && r.pace.now().Sub(last.at) < patience {
		return last.found, nil
	}
	delete(r.attached, network.Name)
	findings, err := attachmentFinding(r.attach(ctx, network, namespaces, withPods))
	if err == nil {
		r.attached[network.Name] = attached{asked, r.pace.now(), findings}
	}
	return findings, err
}

// allowed lists the namespaces whose pods may be on the network.
func allowed(ctx context.Context, reader client.Reader, network *v1alpha1.TSNNetwork) (map[string]bool, error) {
	selector := labels.Everything()
	if network.Spec.NamespaceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector); err != nil {
			return nil, &selectorError{err}
		}
	}
	namespaces, err := namespacesOf(ctx, reader, selector)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, namespace := range namespaces {
		if namespace.DeletionTimestamp == nil {
			names[namespace.Name] = true
		}
	}
	return names, nil
}

// attach has there be an attachment in each of the namespaces, and in no other. Those with pods on the network keep the one that
// they have, as long as Multus may need it; they get none for that: where the chart's policy on pods is not in force,
// anybody can label a pod like one on the network.
func (r *Networks) attach(ctx context.Context, network *v1alpha1.TSNNetwork, namespaces map[string]bool, withPods map[string]int32) error {
	have, foreign, err := r.attachments(ctx, network.Name)
	if err != nil {
		return err
	}
	var all error
	for namespace := range namespaces {
		if !have[namespace] && !slices.Contains(foreign, namespace) {
			all = errors.Join(all, r.makeAttachment(ctx, network, namespace))
		}
	}
	for namespace := range have {
		if !namespaces[namespace] && withPods[namespace] == 0 {
			all = errors.Join(all, r.removeAttachment(ctx, network.Name, namespace))
		}
	}
	foreign = slices.DeleteFunc(foreign, func(namespace string) bool { return !namespaces[namespace] })
	if len(foreign) > 0 {
		slices.Sort(foreign)
		all = errors.Join(all, &foreignError{foreign})
	}
	return all
}

// attachments are the namespaces with an attachment of a network's name, ours and others'.
func (r *Networks) attachments(ctx context.Context, name string) (have map[string]bool, foreign []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(attachmentKind)
	// Not from the cache: clusters without Multus have no such kind to watch.
	if err := r.Live.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil, errMultus
	} else if err != nil {
		return nil, nil, fmt.Errorf("list the NetworkAttachmentDefinitions: %w", err)
	}
	have = map[string]bool{}
	for _, attachment := range list.Items {
		switch {
		case attachment.Name != name:
		case attachment.Labels[v1alpha1.NetworkLabel] == name:
			have[attachment.Namespace] = true
		default:
			foreign = append(foreign, attachment.Namespace)
		}
	}
	return have, foreign, nil
}

func (r *Networks) makeAttachment(ctx context.Context, network *v1alpha1.TSNNetwork, namespace string) error {
	attachment := newAttachment(network.Name, namespace)
	attachment.SetLabels(map[string]string{v1alpha1.NetworkLabel: network.Name, managedBy: string(fieldOwner)})
	attachment.SetOwnerReferences(ownedBy(network))
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(attachment), fieldOwner)
	if err != nil && !gone(err) {
		return fmt.Errorf("make the NetworkAttachmentDefinition in namespace %s: %w", namespace, err)
	}
	return nil
}

// gone tells whether a namespace has gone, or is about to.
func gone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func (r *Networks) removeAttachment(ctx context.Context, name, namespace string) error {
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, newAttachment(name, namespace))); err != nil {
		return fmt.Errorf("remove the NetworkAttachmentDefinition in namespace %s: %w", namespace, err)
	}
	return nil
}

func newAttachment(name, namespace string) *unstructured.Unstructured {
	attachment := &unstructured.Unstructured{}
	attachment.SetGroupVersionKind(attachmentKind)
	attachment.SetName(name)
	attachment.SetNamespace(namespace)
	return attachment
}
