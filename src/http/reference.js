// The API reference is drawn by a library; what it leaves unsaid to those who do not see it is said here.
const sayWhatIsUnsaid = () => {
  for (const button of document.querySelectorAll('button.scalar-code-copy:not([aria-label])'))
    button.setAttribute('aria-label', 'Copy')
  // Each operation has one, and all have one name: none leads anywhere.
  for (const region of document.querySelectorAll('.response-card[role="region"]')) region.removeAttribute('role')
}
new MutationObserver(sayWhatIsUnsaid).observe(document.documentElement, { childList: true, subtree: true })
sayWhatIsUnsaid()
