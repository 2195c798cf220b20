"""The nets and the crops that the bars of this project name, the same for every benchmark."""
