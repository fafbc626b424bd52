// The one script of the pages for people. Without it the text is selected by hand, and the button stays hidden.
for (const button of document.querySelectorAll('button[data-copies]')) {
  const field = document.getElementById(button.dataset.copies)
  if (field === null || navigator.clipboard === undefined) continue
  button.hidden = false
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(field.value)
    button.textContent = button.dataset.done
  })
}
