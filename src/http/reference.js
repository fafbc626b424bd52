// The API reference is drawn by a library; what it leaves unsaid to those who do not see it is said here.
const nameButtons = () => {
  for (const button of document.querySelectorAll('button.scalar-code-copy:not([aria-label])'))
    button.setAttribute('aria-label', 'Copy')
}
new MutationObserver(nameButtons).observe(document.documentElement, { childList: true, subtree: true })
nameButtons()
