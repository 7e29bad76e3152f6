// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// attachmentKind is the kind of Multus' attachments. A NetworkAttachmentDefinition without a configuration refers to the CNI
// configuration of its name that the agent writes on each node.
var attachmentKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// fieldOwner is the operator's field manager in server-side apply.
const fieldOwner = client.FieldOwner("ktsn-operator")

// findingError is an error that a person must correct.
type findingError finding

func (e *findingError) Error() string { return e.text }

// errMultus is returned if the cluster has no kind for attachments.
var errMultus = &findingError{reason: v1alpha1.ReasonMultusMissing, blocks: true,
	text: "the cluster has no NetworkAttachmentDefinitions; install Multus, by which pods get a second network"}

// attachmentFinding converts errors that a person must correct into findings and returns all others.
func attachmentFinding(err error) ([]finding, error) {
	var correctable *findingError
	if errors.As(err, &correctable) {
		return []finding{finding(*correctable)}, nil
	}
	return nil, err
}

// attachmentCheck is the result of a check of a network's attachments.
type attachmentCheck struct {
	// key identifies the desired attachments.
	key      string
	at       time.Time
	findings []finding
}

// ensureAttachments creates attachments in the namespaces that the network selects. An invalid selector leaves them unchanged. They are
// not watched, so they are checked when the desired ones change, or after an interval.
func (r *Networks) ensureAttachments(ctx context.Context, o *outcome) error {
	network, withPods := o.network, maps.Clone(o.used.namespaces)
	maps.Copy(withPods, o.used.excluded) // Multus may need the attachments of excluded pods until these are gone
	namespaces, err := allowedNamespaces(ctx, r.Client, network)
	if err != nil {
		findings, err := attachmentFinding(err)
		o.add(findings...)
		return err
	}
	last, key := r.attached[network.Name], fmt.Sprint(network.UID, slices.Sorted(maps.Keys(namespaces)), slices.Sorted(maps.Keys(withPods)))
	interval := resyncPeriod
	if len(last.findings) > 0 {
		interval = retryPeriod
	}
	if last.key == key && r.pace.now().Sub(last.at) < interval {
		o.add(last.findings...)
		return nil
	}
	delete(r.attached, network.Name)
	findings, err := attachmentFinding(r.applyAttachments(ctx, network, namespaces, withPods))
	if err == nil {
		r.attached[network.Name] = attachmentCheck{key, r.pace.now(), findings}
	}
	o.add(findings...)
	return err
}

// allowedNamespaces lists the namespaces whose pods may be on the network.
func allowedNamespaces(ctx context.Context, reader client.Reader, network *v1alpha1.TSNNetwork) (map[string]bool, error) {
	selector := labels.Everything()
	if network.Spec.NamespaceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(network.Spec.NamespaceSelector); err != nil {
			return nil, &findingError{reason: v1alpha1.ReasonSelectorInvalid, blocks: true,
				text: fmt.Sprintf("spec.namespaceSelector: %v; correct it, until then no more pods can be on the network", err)}
		}
	}
	namespaces, err := listNamespaces(ctx, reader, selector)
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

// applyAttachments creates an attachment in each of the namespaces and deletes all others. Namespaces with pods keep an existing one as
// long as Multus may need it, but never get a new one: without the chart's policy on pods, anybody can label a pod like one on the network.
func (r *Networks) applyAttachments(ctx context.Context, network *v1alpha1.TSNNetwork, namespaces map[string]bool, withPods map[string]int32) error {
	existing, foreign, err := r.listAttachments(ctx, network.Name)
	if err != nil {
		return err
	}
	var errs error
	for namespace := range namespaces {
		if !existing[namespace] && !slices.Contains(foreign, namespace) {
			errs = errors.Join(errs, r.createAttachment(ctx, network, namespace))
		}
	}
	for namespace := range existing {
		if !namespaces[namespace] && withPods[namespace] == 0 {
			errs = errors.Join(errs, r.deleteAttachment(ctx, network.Name, namespace))
		}
	}
	foreign = slices.DeleteFunc(foreign, func(namespace string) bool { return !namespaces[namespace] })
	if len(foreign) > 0 {
		slices.Sort(foreign)
		errs = errors.Join(errs, &findingError{reason: v1alpha1.ReasonForeignAttachment, text: fmt.Sprintf(
			"a NetworkAttachmentDefinition of this name that the operator does not own is in the namespaces %v; delete or rename it", abbreviate(foreign))})
	}
	return errs
}

// listAttachments returns the namespaces with an attachment of a network's name: the operator's, and those of other owners.
func (r *Networks) listAttachments(ctx context.Context, name string) (existing map[string]bool, foreign []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(attachmentKind)
	// Read past the cache: clusters without Multus have no such kind to watch.
	if err := r.shared.live.List(ctx, list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil, errMultus
	} else if err != nil {
		return nil, nil, fmt.Errorf("list the NetworkAttachmentDefinitions: %w", err)
	}
	existing = map[string]bool{}
	for _, attachment := range list.Items {
		switch {
		case attachment.Name != name:
		case attachment.Labels[v1alpha1.NetworkLabel] == name:
			existing[attachment.Namespace] = true
		default:
			foreign = append(foreign, attachment.Namespace)
		}
	}
	return existing, foreign, nil
}

func (r *Networks) createAttachment(ctx context.Context, network *v1alpha1.TSNNetwork, namespace string) error {
	attachment := newAttachment(network.Name, namespace)
	attachment.SetLabels(map[string]string{v1alpha1.NetworkLabel: network.Name, managedBy: string(fieldOwner)})
	attachment.SetOwnerReferences(ownedBy(network))
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(attachment), fieldOwner)
	if err != nil && !namespaceGone(err) {
		return fmt.Errorf("create the NetworkAttachmentDefinition in namespace %s: %w", namespace, err)
	}
	return nil
}

// namespaceGone reports whether err means that the namespace is deleted or terminating.
func namespaceGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

func (r *Networks) deleteAttachment(ctx context.Context, name, namespace string) error {
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, newAttachment(name, namespace))); err != nil {
		return fmt.Errorf("delete the NetworkAttachmentDefinition in namespace %s: %w", namespace, err)
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

// linksConfiguration is the CNI configuration of pods with links: tsn-cni records the sandbox and creates no interface. The chart's policy
// on the operator's attachments has the same text.
const linksConfiguration = `{"cniVersion":"1.1.0","name":"` + v1alpha1.LinksAttachment + `","type":"tsn-cni","links":true}`

// linksAttachment maintains the NetworkAttachmentDefinition of pods with links in the operator's namespace.
type linksAttachment struct {
	client    client.Client
	namespace string
	log       *slog.Logger
}

// Start applies it periodically: clusters without Multus have no such kind to watch.
func (l *linksAttachment) Start(ctx context.Context) error {
	text := ""
	for {
		after := resyncPeriod
		if err := l.apply(ctx); err != nil {
			after = retryPeriod
			if !errors.Is(err, errMultus) {
				after = conflictRetryDelay * 10
			}
			if text != err.Error() {
				text = err.Error()
				l.log.Warn("pods cannot have links yet", "error", err)
			}
		} else {
			text = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
	}
}

func (l *linksAttachment) apply(ctx context.Context) error {
	attachment := newAttachment(v1alpha1.LinksAttachment, l.namespace)
	attachment.SetLabels(map[string]string{managedBy: string(fieldOwner)})
	if err := unstructured.SetNestedField(attachment.Object, linksConfiguration, "spec", "config"); err != nil {
		return err
	}
	err := l.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(attachment), fieldOwner, client.ForceOwnership)
	if meta.IsNoMatchError(err) {
		return errMultus
	}
	if err != nil {
		return fmt.Errorf("create NetworkAttachmentDefinition %s/%s: %w", l.namespace, v1alpha1.LinksAttachment, err)
	}
	return nil
}
