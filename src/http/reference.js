// The API reference is drawn by a library; what it leaves unsaid to those who do not see it is said here.
const sayWhatIsUnsaid = () => {
  for (const button of document.querySelectorAll('button.scalar-code-copy:not([aria-label])'))
    button.setAttribute('aria-label', 'Copy')
  // Each operation has a landmark of the same name, so none leads anywhere. A group has the name and is no landmark.
  for (const region of document.querySelectorAll('.response-card[role="region"]')) region.setAttribute('role', 'group')
}
new MutationObserver(sayWhatIsUnsaid).observe(document.documentElement, { childList: true, subtree: true })
sayWhatIsUnsaid()
